"""How long ago a repeat was asked for: the gateway's wait and the time in the metagame's queues."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.headers import REPEATED
from svcserver.kernel.repeats import LATE_MS, Repeat
from svcserver.web.site import HttpFactory
from tests.edge.wires import Wire
from tests.metagame.repeats.base import FRIENDS, Town
from tests.support.browser import OURS

SLOW_S = 3.5  # of a disk, or a body
MARK = {REPEATED.decode(): "1000"}


class QueueTests(SynchronousTestCase):
    """The transaction waits its turn behind those of all who were parked."""

    def setUp(self) -> None:
        self.town = Town(self)
        self.town.game.browse.clock = self.town.game.clock
        self.queue: list[Deferred[None]] = []

    def slow(self, method: str, path: str, **sent: Any) -> int:
        """The status of a repeat whose transaction waits for ``SLOW_S``."""
        ledger = self.town.game.ledger
        write = ledger.write

        def wait(*asked: Any) -> Deferred[Any]:
            turn: Deferred[None] = Deferred()
            self.queue.append(turn)
            return turn.addCallback(lambda _: write(*asked))

        with_patch = self.patch(ledger, "write", wait)
        token = self.town.ann.token
        answer = self.town.game.browse.ask(method, path, token=token, headers=MARK, **sent)
        self.assertNoResult(answer)
        self.town.pass_time(SLOW_S)
        self.queue.pop().callback(None)
        with_patch.restore()
        self.town.game.browse.flush()
        return self.successResultOf(answer).status

    def test_what_is_done_is_done_once(self) -> None:
        self.town.character(self.town.ann)
        self.town.pass_time(9.0)
        self.town.did(self.town.ann, "PUT /character", {"name": "Second"})
        self.town.pass_time()
        self.assertEqual(self.slow("PUT", "/character", json={"name": "Second"}), 200)
        found = self.town.did(self.town.ann, "GET /character")
        self.assertEqual(len(found), 2)

    def test_what_others_ask_while_it_waits_stays(self) -> None:
        ann, bob = self.town.ann, self.town.bob
        self.town.befriend(ann, bob)
        self.town.pass_time(60.0)
        self.town.did(ann, f"DELETE {FRIENDS}/{ann.id}/{bob.id}")
        self.town.pass_time(1.1)
        self.town.did(bob, f"POST {FRIENDS}/{bob.id}/{ann.id}")
        self.assertEqual(self.slow("DELETE", f"{FRIENDS}/{ann.id}/{bob.id}"), 204)
        [waiting] = self.town.did(ann, f"GET {FRIENDS}/{ann.id}?includePending=true")
        self.assertEqual(waiting["status"], "PENDING")


class BodyTests(SynchronousTestCase):
    def test_a_body_that_comes_late_makes_it_no_newer(self) -> None:
        town = Town(self)
        town.character(town.ann)
        town.pass_time(9.0)
        town.did(town.ann, "PUT /character", {"name": "Second"})
        channel = HttpFactory(town.game.door, town.game.clock).buildProtocol(OURS)
        wire = Wire(channel)
        channel.makeConnection(wire)
        self.addCleanup(wire.abortConnection)
        head = (
            f"PUT /character HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {town.ann.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 17\r\nX-Svc-Repeated: 0\r\n\r\n"
        )
        channel.dataReceived(head.encode() + b'{"name"')
        town.pass_time(SLOW_S)
        channel.dataReceived(b':"Second"}')
        self.assertTrue(wire.take().startswith(b"HTTP/1.1 200 "))
        self.assertEqual(len(town.did(town.ann, "GET /character")), 2)


class RepeatTests(SynchronousTestCase):
    def test_how_long_ago_is_said_in_milliseconds_and_all_else_is_none(self) -> None:
        for said, waited in (("1500", 1500), ("0", 0), ("", 0), ("-1", 0), ("x", 0), ("9" * 10, 0)):
            self.assertEqual(Repeat.of(said), Repeat(waited))

    def test_what_came_before_and_after_is_told_apart(self) -> None:
        one = Repeat(1_000, lambda: 3.0)
        asked = 10_000 - 4_000
        for asks in (one.is_before, one.may_have_done):
            self.assertTrue(asks(asked, 10_000))
            self.assertTrue(asks(asked - LATE_MS + 1, 10_000))
            self.assertFalse(asks(asked - LATE_MS - 1, 10_000))
