"""Trials that find out if game ports are reachable, and datagrams between two local sockets."""

from typing import Any
from unittest import mock

from pytest_twisted import ensureDeferred
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import datagrams
from svcserver.deploy.datagrams import DatagramTrials, exchange
from svcserver.deploy.fleet import Fleet, MachineRecord, NoCapacity
from svcserver.deploy.hunts import GameServerKind
from tests.support.processes import free_port


def machine(name: str, address: str, *, own: bool = False) -> MachineRecord:
    return {
        "id": name,
        "name": name,
        "address": address,
        "state": "ready",
        "memoryBytes": 0,
        "reservedBytes": 0,
        "hunts": 0,
        "players": 0,
        "version": "",
        "room": 0,
        "own": own,
        "reached": None,
    }


class TrialTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.sent: list[Any] = []
        self.result: Deferred[bool | None] = Deferred()
        self.fleet = Fleet(8770, 8773)  # two ports for hunts
        self.records = [machine("a", "203.0.113.1", own=True), machine("b", "203.0.113.2")]
        self.trials = DatagramTrials(
            None, self.fleet, lambda port: False, lambda: self.records, self.exchange
        )

    def exchange(self, reactor: Any, port: int, peer: str, **nonces: str) -> Deferred[bool | None]:
        self.sent.append((port, peer, nonces["sent"], nonces["awaited"]))
        return self.result

    def own_result(self) -> Any:
        return next(record["reached"] for record in self.trials.listed() if record["own"])

    def test_agent_and_host_expect_the_datagrams_the_peer_sends(self) -> None:
        trial = self.trials.begin("b")
        assert trial is not None
        [(port, peer, sent, awaited)] = self.sent
        self.assertEqual((trial["port"], trial["host"], peer), (port, "203.0.113.1", "203.0.113.2"))
        self.assertEqual((trial["sent"], trial["awaited"]), (awaited, sent))
        self.assertNotEqual(sent, awaited)
        self.assertIsNone(self.own_result())
        self.result.callback(True)
        self.assertTrue(self.own_result())

    def test_port_of_a_trial_is_reserved_until_its_end(self) -> None:
        self.trials.begin("b")
        self.fleet.hold(GameServerKind.HUNT, lambda port: False)
        self.assertRaises(NoCapacity, self.fleet.hold, GameServerKind.HUNT, lambda port: False)
        self.trials.stop()
        self.fleet.hold(GameServerKind.HUNT, lambda port: False)

    def test_no_trial_begins_without_address_port_or_beside_another(self) -> None:
        self.assertIsNone(self.trials.begin("unknown"))
        held = [self.fleet.hold(GameServerKind.HUNT, lambda port: False) for _ in range(2)]
        self.assertIsNone(self.trials.begin("b"))
        self.fleet.release(held[0])
        self.assertIsNone(self.trials.begin("b"))  # a hunt may need the last port
        self.assertEqual(self.fleet.hold(GameServerKind.HUNT, lambda port: False), held[0])
        for port in held:
            self.fleet.release(port)
        self.assertIsNotNone(self.trials.begin("b"))
        self.assertIsNone(self.trials.begin("b"))
        self.result.callback(None)
        self.assertIsNone(self.own_result())
        self.assertIsNotNone(self.trials.begin("b"))

    def test_trial_that_ends_at_once_blocks_no_other(self) -> None:
        self.result.callback(None)
        self.assertIsNotNone(self.trials.begin("b"))
        self.assertIsNotNone(self.trials.begin("b"))

    def test_port_of_another_program_is_no_trial(self) -> None:
        error = CannotListenError("", 8770, OSError())
        taken = mock.Mock(listenUDP=mock.Mock(side_effect=error))
        trial = exchange(taken, 8770, "127.0.0.1", sent="a", awaited="b")
        self.assertIsNone(self.successResultOf(Deferred.fromCoroutine(trial)))


@ensureDeferred
async def test_only_the_awaited_datagram_counts(monkeypatch: Any) -> None:
    monkeypatch.setattr(datagrams, "PAUSES_S", (0.0, 0.05))
    monkeypatch.setattr(datagrams, "LAST_S", 0.2)
    results = [
        await exchange(reactor, free_port(), "127.0.0.1", sent="a", awaited=awaited)
        for awaited in ("a", "b")
    ]
    assert results == [True, False]
