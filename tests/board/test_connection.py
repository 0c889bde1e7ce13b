"""A connection to the engine: the order of replies, deadlines, and why the connection ends."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board import connection
from svcserver.board.connection import (
    DEADLINE_S,
    LOOK_S,
    ConnectionEnded,
    EngineReplyError,
    EngineWire,
)


class WireTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.disconnected, self.pushed = Clock(), [], []
        self.transport = StringTransport()
        self.wire = EngineWire(
            self.clock, self.disconnected.append, lambda *message: self.pushed.append(message)
        )
        self.wire.makeConnection(self.transport)
        self.addCleanup(self.end)

    def end(self) -> None:
        if self.wire.up:
            self.wire.connectionLost(Failure(ConnectionDone()))

    def ask(self, *command: Any) -> Deferred[Any]:
        done = self.wire.send_command(*command)
        self.clock.advance(0)
        return done

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / LOOK_S)):
            self.clock.advance(LOOK_S)

    def test_commands_of_a_turn_are_one_write_answered_in_order(self) -> None:
        replies = [self.wire.send_command("GET", key) for key in ("a", b"b", 3)]
        self.assertEqual(self.transport.value(), b"")
        self.clock.advance(0)
        self.assertEqual(
            self.transport.value(),
            b"".join(b"*2\r\n$3\r\nGET\r\n$1\r\n%b\r\n" % key for key in (b"a", b"b", b"3")),
        )
        for byte in b"$1\r\nx\r\n$-1\r\n:7\r\n":
            self.wire.dataReceived(bytes([byte]))
        self.assertEqual([self.successResultOf(reply) for reply in replies], [b"x", None, 7])

    def test_an_error_reply_fails_only_its_command(self) -> None:
        replies = [self.ask("GET", "a"), self.ask("PING")]
        self.wire.dataReceived(b"-WRONGTYPE no\r\n+PONG\r\n")
        self.failureResultOf(replies[0], EngineReplyError)
        self.assertEqual(self.successResultOf(replies[1]), b"PONG")

    def test_a_cancelled_command_takes_no_other_reply(self) -> None:
        left, stays = self.ask("GET", "a"), self.ask("GET", "b")
        left.addErrback(lambda _: None)
        left.cancel()
        self.wire.dataReceived(b"$1\r\na\r\n$1\r\nb\r\n")
        self.assertEqual(self.successResultOf(stays), b"b")

    def test_published_messages_are_no_replies(self) -> None:
        reply = self.ask("PING")
        self.wire.dataReceived(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n+PONG\r\n")
        self.assertEqual(self.pushed, [(b"c", b"hi")])
        self.assertEqual(self.successResultOf(reply), b"PONG")

    def test_a_silent_engine_is_disconnected_after_the_deadline(self) -> None:
        done = self.ask("GET", "a")
        self.wait(DEADLINE_S - LOOK_S)
        self.assertFalse(self.transport.disconnecting)
        self.assertNoResult(done)
        self.wait(3 * LOOK_S)
        self.assertTrue(self.transport.disconnected or self.transport.disconnecting)
        self.end()
        self.failureResultOf(done, ConnectionEnded)
        self.assertEqual(self.disconnected, [self.wire])

    def test_without_the_deadline_a_command_waits_for_ever(self) -> None:
        """Check that the test above would fail without the deadline."""
        self.patch(connection, "DEADLINE_S", 1e9)
        done = self.ask("GET", "a")
        self.wait(60)
        self.assertFalse(self.transport.disconnecting)
        self.assertNoResult(done)
        done.addErrback(lambda _: None)

    def test_a_pause_of_this_process_does_not_disconnect(self) -> None:
        """After a pause, overdue timers run before the waiting bytes are read."""
        done = self.ask("GET", "a")
        self.clock.advance(10 * DEADLINE_S)
        self.wire.dataReceived(b"$1\r\na\r\n")
        self.wait(1)
        self.assertEqual(self.successResultOf(done), b"a")
        self.assertTrue(self.wire.up)

    def test_pending_commands_are_limited(self) -> None:
        self.patch(connection, "MOST_WAITING", 2)
        replies = [self.ask("GET", "a") for _ in range(3)]
        self.failureResultOf(replies[2], ConnectionEnded)
        for reply in replies[:2]:
            self.assertNoResult(reply)
            reply.addErrback(lambda _: None)

    def test_bytes_that_are_no_reply_disconnect(self) -> None:
        done = self.ask("GET", "a")
        self.wire.dataReceived(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        self.assertTrue(self.transport.disconnected or self.transport.disconnecting)
        self.end()
        self.failureResultOf(done, ConnectionEnded)

    def test_an_endless_reply_disconnects(self) -> None:
        self.patch(connection, "MOST_BYTES", 1000)
        done = self.ask("GET", "a")
        self.wire.dataReceived(b"$100000\r\n" + bytes(1000))
        self.assertTrue(self.transport.disconnected or self.transport.disconnecting)
        self.end()
        self.failureResultOf(done, ConnectionEnded)
