"""A player's chat line is echoed only after the kernel has buffered the other players' copies."""

from functools import partial
from socket import socketpair
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.adapter import Behind, TurnEnd
from svcserver.chat.stanza import text_frame
from svcserver.http.prompt import SMALL
from tests.chat.fixture import ChatFixture
from tests.chat.test_adapter import AdapterCase


class BehindTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.out = Clock(), list[bytes]()
        self.end = TurnEnd(self.clock)
        self.behind = Behind(self.end, self.out.append)

    def turn(self) -> list[bytes]:
        self.clock.advance(0)
        return self.out

    def test_a_line_and_later_data_are_echoed_after_all_writes(self) -> None:
        self.behind.begin(b"1")
        self.behind.add(b"a")
        self.behind.begin(b"22")
        self.behind.add(b"c")
        self.end.write(lambda: self.out.append(b"others"))
        self.assertEqual((self.out, self.behind.size), ([], 5))
        self.assertEqual((self.turn(), self.behind.size), ([b"others", b"1a", b"22c"], 0))
        self.assertEqual(self.clock.calls, [])
        self.behind.begin(b"3")
        self.assertEqual(self.turn()[3:], [b"3"])

    def test_a_close_sends_held_lines_in_order_and_a_loss_drops_them(self) -> None:
        for after in (self.behind.release_all, self.behind.drop):
            self.behind.begin(b"1")
            self.behind.begin(b"2")
            after()
            self.turn()
            self.assertEqual((self.out, self.behind.size), ([b"1", b"2"], 0))
            self.assertEqual(self.clock.calls, [])

    def test_a_failed_write_loses_no_other_write_of_its_turn(self) -> None:
        def fail() -> None:
            raise OSError("no write")

        self.behind.begin(b"own")
        self.end.write(fail)
        self.end.write(lambda: self.out.append(b"others"))
        self.assertRaises(OSError, self.turn)
        self.assertEqual(self.turn(), [b"others", b"own"])
        self.assertEqual(self.clock.calls, [])

    def test_the_end_of_the_chat_leaves_no_timer(self) -> None:
        self.behind.begin(b"1")
        self.end.stop()
        self.end.stop()
        self.assertEqual((self.clock.calls, self.out), ([], []))


class SpokenTests(AdapterCase):
    def test_the_frames_of_a_turn_are_written_together(self) -> None:
        client = self.connect()
        self.take_frames(client)
        for name in "ab":
            client.send(text_frame(f"<{name}/>"))
        self.assertEqual(client.transport.value(), b"")
        self.assertEqual([text for _, text in self.take_frames(client)], [b"<a/>", b"<b/>"])

    def test_speakers_of_one_turn_are_echoed_after_all_have_the_line(self) -> None:
        first, second = self.connect(), self.connect()
        written: list[tuple[Any, bytes]] = []
        for client in (first, second):
            self.take_frames(client)
            self.patch(client.transport, "write", partial(self.note, written, client))
        for line, speaker, listener in ((b"1", first, second), (b"2", second, first)):
            listener.send(line)
            speaker.send_behind(line)
        self.clock.advance(0)
        self.assertEqual(written, [(second, b"1"), (first, b"12"), (second, b"2")])

    def test_many_frames_of_a_turn_are_written_without_the_poller(self) -> None:
        client = self.connect()
        for end in (pair := socketpair()):
            self.addCleanup(end.close)
            end.setblocking(False)
        client.transport = Connection(pair[0], client, self.clock)
        client.transport.connected = True
        client.send(b"x" * 2 * SMALL)
        self.clock.advance(0)
        self.assertEqual(len(pair[1].recv(3 * SMALL)), 2 * SMALL)

    @staticmethod
    def note(written: list[tuple[Any, bytes]], client: Any, data: bytes) -> None:
        written.append((client, data))

    def test_frames_sent_after_an_own_line_keep_their_order(self) -> None:
        client = self.connect()
        self.take_frames(client)
        first, second, third = (text_frame(f"<{name}/>") for name in "abc")
        client.send(first)
        client.send_behind(second)
        client.send(third)
        self.assertEqual(
            [text for _, text in self.take_frames(client)], [b"<a/>", b"<b/>", b"<c/>"]
        )
        client.send(first)
        self.assertEqual([text for _, text in self.take_frames(client)], [b"<a/>"])

    def test_held_frames_count_as_unsent(self) -> None:
        for first, second in (
            ("send", "send"),
            ("send_behind", "send"),
            ("send_behind", "send_behind"),
        ):
            client = self.connect()
            self.take_frames(client)
            getattr(client, first)(b"x" * (self.factory.backlog + 1))
            getattr(client, second)(b"y")
            self.clock.advance(0)
            self.clock.advance(0)
            self.assertEqual(
                (client.session.why_ended, client.transport.aborted), ("backlog", True)
            )
            self.assertEqual(client.transport.value(), b"")

    def test_held_messages_are_sent_when_a_session_ends(self) -> None:
        client = self.connect()
        self.take_frames(client)
        client.send(text_frame("<a/>"))
        client.send_behind(text_frame("<b/>"))
        client.session.end("shutdown")
        self.assertEqual([text for _, text in self.take_frames(client)][:2], [b"<a/>", b"<b/>"])

    def test_a_lost_connection_gets_nothing_that_is_held(self) -> None:
        client = self.connect()
        self.take_frames(client)
        client.send(text_frame("<a/>"))
        client.send_behind(text_frame("<b/>"))
        client.connectionLost(Failure(ConnectionDone()))
        self.clock.advance(0)
        self.assertEqual((client.transport.value(), self.clock.calls), (b"", []))


class RoomTests(SynchronousTestCase):
    def test_only_the_speaker_of_a_room_waits(self) -> None:
        fixture = ChatFixture()
        first, second = fixture.bound(1), fixture.bound(2)
        first.join("City-1")
        first.say("City-1", "nobody else is here")
        self.assertEqual(first.wire.behind, 0)
        second.join("City-1")
        self.assertIn("hello", first.say("City-1", "hello")[-1])
        self.assertEqual((first.wire.behind, second.wire.behind), (1, 0))
