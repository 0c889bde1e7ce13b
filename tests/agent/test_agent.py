"""The host's orders to an agent, which stops its game servers if the host does not answer."""

import tempfile
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseDone

from svcserver.agent.checks import AGAIN_S as CHECK_AGAIN_S
from svcserver.agent.checks import EVERY_S, NodeChecks
from svcserver.agent.containers import STOP_S, Containers
from svcserver.agent.link import (
    AGAIN_S,
    APPLIED_S,
    APPLY_LOOK_S,
    CARRY_OUT_S,
    KEPT_S,
    MAX_REPLY,
    POLL_S,
    HelperClient,
    HostLink,
)
from svcserver.agent.service import LOST_S, LostHost
from svcserver.deploy.docker_api import EngineError
from svcserver.edge.nodes import BadFleet, Credential, FleetFolder
from svcserver.kernel.secrets import Secret

ALLOW = {"id": "1", "act": "allow", "address": "203.0.113.9"}
WITHDRAW = {"id": "2", "act": "withdraw", "address": "203.0.113.9"}


@define
class Reply:
    """A reply with a JSON document."""

    document: Any
    code: int = 200

    def content(self) -> Deferred[bytes]:
        return succeed(orjson.dumps(self.document))

    def deliverBody(self, protocol: Protocol) -> None:
        protocol.transport = Connection()
        protocol.dataReceived(orjson.dumps(self.document))
        protocol.connectionLost(Failure(ResponseDone()))


class Connection:
    """A fake of a connection."""

    def loseConnection(self) -> None: ...


@define
class Wire:
    """A fake of treq; each request waits for the test's answer."""

    sent: list[tuple[str, Any]] = field(factory=list)
    waiting: list[Deferred[Any]] = field(factory=list)

    def post(self, url: str, data: bytes, headers: Any, unbuffered: bool) -> Deferred[Any]:
        self.sent.append((url, orjson.loads(data)))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def answer(self, document: Any, code: int = 200) -> None:
        self.waiting.pop(0).callback(Reply(document, code))


@define
class FirewallHelper:
    """A fake of treq for an allowlist helper."""

    orders: list[tuple[str, Any]] = field(factory=list)
    is_down: bool = False
    is_unreadable: bool = False
    is_slow: bool = False
    waiting: list[Deferred[Any]] = field(factory=list)
    addresses: list[str] = field(factory=list)
    last: Any = field(factory=lambda: {"ok": True})  # its last change of the firewall
    pending: bool = False  # a change of the firewall
    dry_run: bool = False

    def get(self, url: str, headers: Any) -> Deferred[Any]:
        if self.is_unreadable:
            return fail(ConnectionRefusedError())
        entries = [{"ip": address} for address in self.addresses]
        return succeed(
            Reply(
                {
                    "entries": entries,
                    "lastApply": self.last,
                    "pending": self.pending,
                    "dryRun": self.dry_run,
                }
            )
        )

    def post(self, url: str, data: bytes, headers: Any) -> Deferred[Any]:
        if self.is_down:
            return fail(ConnectionRefusedError())
        self.orders.append((url.rpartition("/")[2], orjson.loads(data)))
        if self.is_slow:
            self.waiting.append(Deferred())
            return self.waiting[-1]
        return succeed(Reply({}))


@define
class SmallHelper(FirewallHelper):
    """A fake helper that keeps two addresses."""

    def post(self, url: str, data: bytes, headers: Any) -> Deferred[Any]:
        reply = super().post(url, data, headers)
        act, body = self.orders[-1]
        if act == "withdraw":
            self.addresses.remove(body["network"])
        elif body["ip"] not in self.addresses:
            if len(self.addresses) == 2:
                return succeed(Reply({"error": "allowlist_full"}, 503))
            self.addresses.append(body["ip"])
        return reply


class LinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.wire, self.firewall = Clock(), Wire(), FirewallHelper()
        self.start()

    def start(self) -> None:
        url, secret = "http://127.0.0.1:61005", Secret("s" * 32)
        helper = HelperClient(self.firewall, self.clock, url, secret)
        self.link = HostLink(self.wire, self.clock, helper)
        self.work = Deferred.fromCoroutine(self.link.run())
        self.addCleanup(self.work.addErrback, lambda _: None)
        self.addCleanup(self.work.cancel)

    def answer(self, *orders: Any) -> None:
        self.wire.answer({"orders": list(orders)})

    def test_an_order_is_carried_out_and_acknowledged(self) -> None:
        self.answer(ALLOW)
        self.assertEqual(self.firewall.orders, [("allow", {"ip": "203.0.113.9"})])
        sent = self.wire.sent[-1][1]
        self.assertEqual((sent["done"], sent["helper"]), (["1"], True))
        self.answer()
        self.assertEqual(self.wire.sent[-1][1]["done"], [])

    def assert_cancelled_for_good(self) -> None:
        """Cancel the link, and check that it polls no more."""
        polls = len(self.wire.sent)
        self.work.cancel()
        self.clock.pump([AGAIN_S] * 3)
        self.assertEqual(len(self.wire.sent), polls)
        self.failureResultOf(self.work, CancelledError)

    def test_a_cancelled_link_polls_no_more(self) -> None:
        self.assert_cancelled_for_good()

    def test_a_link_cancelled_during_an_order_polls_no_more(self) -> None:
        self.firewall.is_slow = True
        self.answer(ALLOW)
        self.assert_cancelled_for_good()

    def test_an_order_that_the_helper_refuses_is_not_acknowledged(self) -> None:
        self.firewall.is_down = True
        self.answer(ALLOW)
        self.assertEqual(self.wire.sent[-1][1]["done"], [])

    def test_orders_are_acknowledged_when_the_firewall_has_them(self) -> None:
        self.firewall.pending = True
        self.answer(ALLOW, {**ALLOW, "id": "3", "address": "203.0.113.10"})
        self.clock.advance(APPLY_LOOK_S)
        self.assertEqual((len(self.firewall.orders), len(self.wire.sent)), (2, 1))
        self.firewall.pending = False
        self.clock.advance(APPLY_LOOK_S)
        self.assertEqual(self.wire.sent[-1][1]["done"], ["1", "3"])

    def test_order_that_the_firewall_refuses_is_not_acknowledged(self) -> None:
        self.firewall.pending, self.firewall.last = True, {"ok": False}
        self.answer(ALLOW)
        self.clock.pump([APPLY_LOOK_S] * (int(APPLIED_S / APPLY_LOOK_S) + 1))
        self.assertEqual((len(self.wire.sent), self.wire.sent[-1][1]["done"]), (2, []))

    def test_an_acknowledgement_is_repeated_until_it_arrives(self) -> None:
        self.answer(ALLOW)
        self.wire.answer({}, 503)
        self.clock.advance(AGAIN_S)
        self.assertEqual(self.wire.sent[-1][1]["done"], ["1"])

    def order(self, number: int) -> dict[str, str]:
        return {**ALLOW, "id": str(number), "address": f"203.0.113.{number}"}

    def with_small_helper(self) -> None:
        self.work.cancel()
        self.wire.waiting.clear()
        self.firewall = SmallHelper()
        self.start()

    def test_oldest_address_makes_room_in_a_full_helper(self) -> None:
        self.with_small_helper()
        for number in (1, 2, 1, 3):
            self.answer(self.order(number))
        self.assertEqual(self.wire.sent[-1][1]["done"], ["3"])
        self.assertEqual(self.firewall.addresses, ["203.0.113.1", "203.0.113.3"])
        self.assertIs(self.link.helper.works, True)
        self.successResultOf(Deferred.fromCoroutine(self.link.refresh()))
        self.assertEqual(self.firewall.addresses, ["203.0.113.1", "203.0.113.3"])

    def test_helper_that_others_have_filled_does_not_work(self) -> None:
        self.with_small_helper()
        self.firewall.addresses += ["198.51.100.1", "198.51.100.2"]  # of another gateway
        self.answer(self.order(1))
        sent = self.wire.sent[-1][1]
        self.assertEqual((sent["done"], sent["helper_works"]), ([], False))
        self.successResultOf(Deferred.fromCoroutine(self.link.read_helper()))
        self.assertIs(self.link.helper.works, False)
        self.firewall.addresses.pop()
        self.successResultOf(Deferred.fromCoroutine(self.link.refresh()))
        self.assertIs(self.link.helper.works, True)

    def test_failed_withdrawal_is_repeated_until_it_succeeds(self) -> None:
        def looked() -> list[str]:
            self.firewall.orders.clear()
            self.successResultOf(Deferred.fromCoroutine(self.link.read_helper()))
            return [act for act, _ in self.firewall.orders]

        self.answer(ALLOW)
        self.firewall.is_down = True
        self.answer(WITHDRAW)
        self.assertEqual(looked(), [])
        self.firewall.is_down = False
        self.assertEqual(looked(), ["withdraw"])
        self.assertEqual(looked(), [])

    def test_withdrawal_after_the_deadline_is_repeated(self) -> None:
        self.firewall.is_slow = True
        self.answer(*({**ALLOW, "id": str(number)} for number in range(9)), WITHDRAW)
        self.clock.pump([1.0] * int(CARRY_OUT_S + POLL_S))
        self.firewall.is_slow = False
        self.firewall.orders.clear()
        self.successResultOf(Deferred.fromCoroutine(self.link.read_helper()))
        self.assertEqual([act for act, _ in self.firewall.orders], ["withdraw"])

    def test_address_that_returns_is_opened_after_its_withdrawal(self) -> None:
        self.firewall.is_down = True
        self.answer(WITHDRAW)
        self.firewall.is_down = False
        self.answer(ALLOW)
        self.successResultOf(Deferred.fromCoroutine(self.link.read_helper()))
        self.assertEqual([act for act, _ in self.firewall.orders], ["withdraw", "allow"])

    def test_full_helper_does_not_reopen_a_withdrawn_address(self) -> None:
        self.answer(self.order(1), ALLOW)
        self.successResultOf(Deferred.fromCoroutine(self.link.refresh()))
        self.firewall.is_slow = True
        refresh = Deferred.fromCoroutine(self.link.refresh())
        self.firewall.waiting.pop(0).callback(Reply({}))
        self.answer(WITHDRAW)
        self.firewall.waiting.pop(0).callback(Reply({}, 503))
        self.firewall.waiting.pop(0).callback(Reply({}))
        self.successResultOf(refresh)
        self.assertEqual([act for act, _ in self.firewall.orders[-2:]], ["allow", "withdraw"])

    def test_open_addresses_are_reported_again_until_withdrawn(self) -> None:
        def refreshed() -> int:
            self.firewall.orders.clear()
            self.successResultOf(Deferred.fromCoroutine(self.link.refresh()))
            return len(self.firewall.orders)

        self.answer(ALLOW)
        self.assertEqual(refreshed(), 1)
        self.answer(WITHDRAW)
        self.assertEqual(refreshed(), 0)
        self.answer(ALLOW)
        self.clock.advance(KEPT_S + 1)
        self.assertEqual(refreshed(), 0)

    def test_a_restarted_agent_reports_the_open_addresses(self) -> None:
        self.work.cancel()
        self.firewall.addresses = ["203.0.113.9", "203.0.113.10"]
        self.start()
        self.successResultOf(Deferred.fromCoroutine(self.link.refresh()))
        opened = [body["ip"] for _, body in self.firewall.orders]
        self.assertEqual(opened, self.firewall.addresses)

    def test_a_poll_reports_whether_the_helper_changes_the_firewall(self) -> None:
        def reported() -> Any:
            self.successResultOf(Deferred.fromCoroutine(self.link.read_helper()))
            self.answer()
            return self.wire.sent[-1][1]["helper_works"]

        self.assertIs(reported(), True)
        self.firewall.last = {"ok": False, "error": "Operation not permitted"}
        self.assertIs(reported(), False)
        self.firewall.last = {"ok": True}
        self.assertIs(reported(), True)
        self.firewall.last = None  # its first change has not ended
        self.assertIs(reported(), False)
        self.firewall.last, self.firewall.dry_run = {"ok": True}, True
        self.assertIs(reported(), False)
        self.firewall.is_unreadable = True
        self.assertIs(reported(), False)

    def test_addresses_are_reported_once_a_late_helper_is_readable(self) -> None:
        self.work.cancel()
        self.firewall.addresses, self.firewall.is_unreadable = ["203.0.113.9"], True
        self.start()
        self.firewall.is_unreadable = False
        self.successResultOf(Deferred.fromCoroutine(self.link.refresh()))
        self.assertEqual(self.firewall.orders, [("allow", {"ip": "203.0.113.9"})])

    def test_address_withdrawn_before_the_helper_answers_stays_closed(self) -> None:
        self.work.cancel()
        self.firewall.addresses, self.firewall.is_unreadable = ["203.0.113.9"], True
        self.wire.waiting.clear()
        self.start()
        self.answer(WITHDRAW)
        self.firewall.is_unreadable = False
        self.firewall.orders.clear()
        self.successResultOf(Deferred.fromCoroutine(self.link.refresh()))
        self.assertEqual(self.firewall.orders, [])

    def test_reply_that_the_node_is_down_is_no_sign_of_life(self) -> None:
        self.clock.advance(5)
        self.wire.answer({"orders": [ALLOW], "down": True})
        self.assertEqual((self.link.contact_at, len(self.firewall.orders)), (0, 1))
        self.wire.answer({"orders": [], "down": False})
        self.assertEqual(self.link.contact_at, 5)

    def test_damaged_orders_are_ignored(self) -> None:
        self.answer({"id": 1}, "x", {**ALLOW, "act": "status"}, ALLOW)
        self.assertEqual(len(self.firewall.orders), 1)

    def test_an_answer_and_a_refused_connection_are_signs_of_life(self) -> None:
        self.clock.advance(5)
        self.answer()
        self.assertEqual(self.link.contact_at, 5)
        self.clock.advance(3)
        self.wire.waiting.pop().errback(ConnectionRefusedError())
        self.assertEqual(self.link.contact_at, 8)

    def test_no_reply_or_an_error_reply_is_no_sign_of_life(self) -> None:
        self.clock.advance(POLL_S)
        self.clock.advance(AGAIN_S)
        self.assertEqual(len(self.wire.sent), 2)
        self.wire.waiting[-1].callback(Reply({}, 403))
        self.assertEqual(self.link.contact_at, 0)

    def test_a_server_error_is_a_sign_of_life(self) -> None:
        self.clock.advance(5)
        self.wire.answer({}, 503)
        self.assertEqual(self.link.contact_at, 5)

    def test_a_hanging_helper_delays_no_poll_for_long(self) -> None:
        self.firewall.is_slow = True
        self.answer(*({**ALLOW, "id": str(number)} for number in range(100)))
        self.clock.pump([1.0] * int(CARRY_OUT_S + POLL_S))
        self.assertEqual(len(self.wire.sent), 2)

    def test_a_refresh_does_not_reopen_a_withdrawn_address(self) -> None:
        self.answer(ALLOW, {**ALLOW, "address": "203.0.113.10"})
        self.firewall.is_slow = True
        refresh = Deferred.fromCoroutine(self.link.refresh())
        self.answer({**WITHDRAW, "address": "203.0.113.10"})
        while self.firewall.waiting:
            self.firewall.waiting.pop(0).callback(Reply({}))
        self.successResultOf(refresh)
        acts = [act for act, _ in self.firewall.orders[2:]]
        self.assertEqual(acts, ["allow", "withdraw"])

    def test_a_reply_that_is_too_long_is_refused(self) -> None:
        self.answer({"id": "x" * MAX_REPLY})
        self.clock.advance(AGAIN_S)
        self.assertEqual(len(self.wire.sent), 2)


class CredentialTests(SynchronousTestCase):
    def test_a_damaged_credential_is_refused_with_the_faulty_part(self) -> None:
        folder = FleetFolder(Path(self.enterContext(tempfile.TemporaryDirectory())))
        sent = orjson.loads(folder.issue("node1", "10.0.0.2", "10.0.0.1", 61020))
        self.assertEqual(Credential.parse(orjson.dumps(sent)).node, "node1")
        for change, line in (
            ({"certificate": "x"}, "the certificate of the node "),
            ({"key": "x"}, "the key of the node "),
            ({"host": "a b"}, "damaged"),
            ({"key": "x" * 20_000}, "damaged"),
        ):
            error = self.assertRaises(BadFleet, Credential.parse, orjson.dumps({**sent, **change}))
            self.assertIn(line, str(error))


@define
class NodeEngine:
    """A fake engine with two game servers; the first game server cannot be stopped."""

    calls: list[tuple[str, str]] = field(factory=list)
    error: EngineError | None = None
    hangs: bool = False

    async def call(self, method: str, path: str, **query: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.calls.append((method, path))
        return [{"Id": "abc"}, {"Id": "def"}] if method == "GET" else await self._stop(path)

    async def _stop(self, path: str) -> None:
        if "abc" in path:
            if self.hangs:
                await Deferred()
            raise EngineError(404, "no such container")


class CheckTests(SynchronousTestCase):
    """The node's checks; the results go to the host with the next poll."""

    def setUp(self) -> None:
        self.clock, self.wire, self.engine = Clock(), Wire(), NodeEngine()
        link, containers = (
            HostLink(self.wire, self.clock, None),
            Containers(self.engine, self.clock),
        )
        self.trials: list[Any] = []
        checks = NodeChecks(self.clock, link, containers, self.exchange)
        self.link, self.work = link, Deferred.fromCoroutine(checks.run())
        self.addCleanup(self.work.addErrback, lambda _: None)
        self.addCleanup(self.work.cancel)

    def exchange(self, reactor: Any, port: int, host: str, **nonces: str) -> Deferred[bool | None]:
        self.trials.append((port, host, nonces))
        return succeed(True)

    def check(self, trial: Any) -> tuple[bool | None, bool | None]:
        self.wire.answer({"image": "game:1", "trial": trial})
        self.clock.advance(EVERY_S)
        return self.link.has_image, self.link.is_reached

    def test_a_check_reports_the_image_and_tries_a_game_port(self) -> None:
        self.assertEqual(self.check(None), (True, None))
        self.assertEqual(self.engine.calls, [("GET", "/images/game:1/json")])
        trial = {"port": 8770, "host": "203.0.113.1", "sent": "a", "awaited": "b"}
        self.engine.error = EngineError(404, "no such image")
        self.assertEqual(self.check(trial), (False, True))
        self.engine.error = EngineError(0, "no answer")
        self.assertEqual(self.check({**trial, "host": "name.example"}), (None, True))
        self.assertEqual(self.trials, [(8770, "203.0.113.1", {"sent": "a", "awaited": "b"})])

    def test_cancelled_checks_end(self) -> None:
        self.work.cancel()
        self.clock.pump([CHECK_AGAIN_S] * 2)
        self.assertEqual(len(self.wire.sent), 1)
        self.failureResultOf(self.work, CancelledError)

    def test_check_that_the_host_refuses_is_repeated(self) -> None:
        self.wire.answer({}, 404)
        self.clock.advance(CHECK_AGAIN_S)
        self.assertEqual(len(self.wire.sent), 2)

    def test_poll_sends_the_clock_and_the_results_of_the_checks(self) -> None:
        self.check(None)
        poll = Deferred.fromCoroutine(self.link.run())
        sent = self.wire.sent[-1][1]
        self.assertEqual((sent["image"], sent["reached"]), (True, None))
        self.assertIsInstance(sent["clock"], float)
        poll.addErrback(lambda _: None)
        poll.cancel()


class LostHostTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.engine = Clock(), NodeEngine()
        wire: Any = Wire()
        api: Any = self.engine
        self.link = HostLink(wire, self.clock, None)
        self.watch = LostHost(self.clock, self.link, Containers(api, self.clock).stop_all)

    def test_game_servers_stop_when_the_host_is_away_for_30_s(self) -> None:
        self.clock.advance(LOST_S)
        self.assertIsNone(self.watch.stop_if_lost())
        self.clock.advance(1)
        self.watch.stop_if_lost()
        stops = [("POST", f"/containers/{name}/stop") for name in ("abc", "def")]
        self.assertEqual(self.engine.calls[-2:], stops)
        self.assertGreater(10, STOP_S)

    def test_a_game_server_that_hangs_delays_no_other(self) -> None:
        self.clock.advance(LOST_S + 1)
        self.engine.hangs = True
        self.watch.stop_if_lost()
        self.assertEqual(self.engine.calls[-1], ("POST", "/containers/def/stop"))

    def test_game_servers_are_stopped_once_the_engine_answers_again(self) -> None:
        self.clock.advance(LOST_S + 1)
        self.engine.error = EngineError(0, "no answer")
        self.watch.stop_if_lost()
        self.engine.error = None
        self.watch.stop_if_lost()
        self.assertEqual(len(self.engine.calls), 3)

    def test_nothing_stops_once_the_host_answers_again(self) -> None:
        self.clock.advance(LOST_S + 1)
        self.watch.stop_if_lost()
        self.link.contact_at = self.clock.seconds()
        self.engine.calls.clear()
        self.assertIsNone(self.watch.stop_if_lost())
        self.assertEqual(self.engine.calls, [])
