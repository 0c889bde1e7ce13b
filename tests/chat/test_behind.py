"""A player's own chat line is echoed only after all others' copies are in the kernel's buffers."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.adapter import Behind, TwoTurns
from svcserver.chat.settings import Settings
from svcserver.chat.stanza import text_frame
from tests.chat.test_adapter import AdapterCase
from tests.chat.town import Town


class TurnClock(Clock):
    """A clock whose ``turn`` runs all calls that are due, as one iteration of the reactor does."""

    def turn(self) -> None:
        """Run the calls that are due now, but not the calls that they schedule."""
        for call in [item for item in self.calls if item.getTime() <= self.seconds()]:
            self.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)


class BehindTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.out = TurnClock(), list[bytes]()
        self.turns = TwoTurns(self.clock)
        self.behind = Behind(self.turns, self.out.append)

    def turn(self) -> list[bytes]:
        self.clock.turn()
        return self.out

    def test_each_line_waits_for_two_turns_of_its_own_with_what_follows(self) -> None:
        self.behind.begin(b"1")
        self.behind.add(b"a")
        self.assertEqual(self.turn(), [])
        self.behind.add(b"b")
        self.behind.begin(b"22")
        self.behind.add(b"c")
        self.assertEqual((self.turn(), self.behind.size), ([b"1ab"], 3))
        self.assertEqual((self.turn(), self.behind.size), ([b"1ab", b"22c"], 0))
        self.assertEqual(self.clock.calls, [])
        self.behind.begin(b"3")
        self.assertEqual((len(self.turn()), self.turn()), (2, [b"1ab", b"22c", b"3"]))

    def test_a_close_lets_all_out_in_order_and_a_loss_nothing(self) -> None:
        for after in (self.behind.release_all, self.behind.drop):
            self.behind.begin(b"1")
            self.clock.turn()
            self.behind.begin(b"2")
            after()
            self.clock.turn()
            self.clock.turn()
            self.assertEqual((self.out, self.behind.size), ([b"1", b"2"], 0))
            self.assertEqual(self.clock.calls, [])

    def test_the_chats_end_leaves_no_timer(self) -> None:
        self.behind.begin(b"1")
        self.turns.stop()
        self.turns.stop()
        self.assertEqual((self.clock.calls, self.out), ([], []))


class SpokenTests(AdapterCase):
    def start(self, settings: Settings) -> None:
        super().start(settings)
        self.turns = TurnClock()
        self.factory.clock = self.factory.two_turns.clock = self.turns

    def test_frames_after_an_own_line_wait_behind_it(self) -> None:
        client = self.connect()
        self.said(client)
        first, second, third = (text_frame(f"<{name}/>") for name in "abc")
        client.send(first)
        client.send_behind(second)
        client.send(third)
        self.assertEqual([text for _, text in self.said(client)], [b"<a/>"])
        self.turns.turn()
        self.assertEqual(self.said(client), [])
        self.turns.turn()
        self.assertEqual([text for _, text in self.said(client)], [b"<b/>", b"<c/>"])
        client.send(first)
        self.assertEqual([text for _, text in self.said(client)], [b"<a/>"])

    def test_held_frames_count_as_unsent(self) -> None:
        for second in ("send", "send_behind"):
            client = self.connect()
            client.transport.clear()
            client.send_behind(b"x" * (self.factory.backlog + 1))
            getattr(client, second)(b"y")
            self.turns.turn()
            self.assertEqual(
                (client.session.why_ended, client.transport.aborted), ("backlog", True)
            )
            self.assertEqual(client.transport.value(), b"")

    def test_the_end_of_a_session_takes_what_is_held_along(self) -> None:
        client = self.connect()
        self.said(client)
        client.send_behind(text_frame("<a/>"))
        client.session.end("shutdown")
        self.assertEqual(self.said(client)[0][1], b"<a/>")

    def test_a_lost_connection_gets_nothing_that_is_held(self) -> None:
        client = self.connect()
        self.said(client)
        client.send_behind(text_frame("<a/>"))
        client.connectionLost(Failure(ConnectionDone()))
        self.turns.turn()
        self.turns.turn()
        self.assertEqual((client.transport.value(), self.turns.calls), (b"", []))


class RoomTests(SynchronousTestCase):
    def test_only_the_speaker_of_a_room_waits(self) -> None:
        town = Town()
        first, second = town.bound(1), town.bound(2)
        first.join("City-1")
        first.say("City-1", "nobody else is here")
        self.assertEqual(first.wire.behind, 0)
        second.join("City-1")
        self.assertIn("hello", first.say("City-1", "hello")[-1])
        self.assertEqual((first.wire.behind, second.wire.behind), (1, 0))
