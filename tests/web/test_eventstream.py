"""Server-sent events: their content, their timing, and the end of a stream."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Unauthenticated, Unavailable
from svcserver.web.eventstream import (
    BEAT,
    BEAT_S,
    EVERY_S,
    FULL,
    LIVES_S,
    MOST,
    SHARE,
    STALLED_S,
    EventStreams,
    Reader,
    SharedLook,
)
from svcserver.web.response import response_head


class Out:
    """A fake channel with only the parts that a stream uses."""

    def __init__(self) -> None:
        self.transport: Any = StringTransport()
        self.transport.abortConnection = lambda: setattr(self, "aborted", True)
        self.finished = self.aborted = False

    def write(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self) -> None:
        self.transport.write(b"0\r\n\r\n")
        self.finished = True


class EventStreamTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.now = Clock(), b"1"
        self.streams = EventStreams(self.clock)
        self.looks: list[Deferred[bytes | None]] | None = None
        self.admitted = True
        answer = self.streams.answer(self.look, self.reader("ann"))
        self.head = response_head(answer, b"", b"", close=False)
        self.stream: Any = answer.body
        self.out = Out()

    def reader(self, account: str, *, owner: bool = False) -> Reader:
        return Reader(account, owner, self.check)

    async def check(self) -> None:
        if not self.admitted:
            raise Unauthenticated("signed out")

    def fill(self) -> None:
        """Open streams for several accounts until ``MOST`` streams are open."""
        for number in range(1, MOST):
            self.streams.answer(self.look, self.reader(f"{number % (MOST // SHARE + 1)}"))

    async def look(self) -> bytes | None:
        return self.now

    def sent(self) -> bytes:
        """Return the bytes sent since the last call, without the chunk lengths."""
        pieces, rest = [], self.out.transport.value()
        self.out.transport.clear()
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            pieces.append(rest[:length])
            rest = rest[length + 2 :]
        return b"".join(pieces)

    def test_a_stream_has_a_type_and_no_length(self) -> None:
        self.assertIn(b"Content-Type: text/event-stream", self.head)
        self.assertIn(b"Transfer-Encoding: chunked", self.head)
        self.assertNotIn(b"Content-Length", self.head)

    def test_unchanged_data_are_not_sent_again(self) -> None:
        self.stream.begin(self.out)
        self.assertEqual(self.sent(), BEAT + b"data: 1\n\n")
        self.clock.advance(EVERY_S)
        self.assertEqual(self.sent(), b"")
        self.now = b"2"
        self.clock.advance(EVERY_S)
        self.assertEqual(self.sent(), b"data: 2\n\n")

    def test_silence_is_broken_by_a_sign_of_life(self) -> None:
        self.stream.begin(self.out)
        self.sent()
        self.clock.pump([EVERY_S] * int(BEAT_S))
        self.assertEqual(self.sent(), BEAT)

    def test_a_stream_ends_so_that_the_reader_must_authenticate_again(self) -> None:
        self.stream.begin(self.out)
        self.clock.pump([EVERY_S] * int(LIVES_S))
        self.assertTrue(self.out.finished)
        self.assertTrue(self.out.transport.value().endswith(b"0\r\n\r\n"))

    def test_a_failing_read_ends_the_stream_and_is_logged(self) -> None:
        async def fail() -> bytes:
            raise ValueError("a defect")

        self.stream.read_line = fail
        self.stream.begin(self.out)
        self.assertTrue(self.out.finished)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_reader_that_takes_nothing_gets_no_more_and_is_cut_off(self) -> None:
        self.stream.begin(self.out)
        self.sent()
        self.stream.pauseProducing()
        self.now = b"2"
        self.clock.advance(EVERY_S)
        self.assertEqual(self.sent(), b"")
        self.clock.advance(STALLED_S)
        self.assertTrue(self.out.aborted)

    def test_a_reader_that_resumes_gets_the_newest_line(self) -> None:
        self.stream.begin(self.out)
        self.sent()
        self.stream.pauseProducing()
        for self.now in (b"2", b"3"):
            self.clock.advance(EVERY_S)
        self.stream.resumeProducing()
        self.clock.advance(EVERY_S)
        self.assertEqual(self.sent(), b"data: 3\n\n")

    def test_nothing_is_left_when_the_connection_is_lost(self) -> None:
        waiting: Deferred[bytes | None] = Deferred()

        async def wait() -> bytes | None:
            return await waiting

        self.stream.read_line = wait
        self.stream.begin(self.out)
        self.stream.over()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        for _ in range(SHARE):
            self.streams.answer(self.look, self.reader("ann"))

    def test_a_reader_that_half_closes_is_disconnected(self) -> None:
        self.stream.begin(self.out)
        self.stream.half_closed()
        self.assertTrue(self.out.aborted)

    def test_a_reader_without_its_right_gets_no_more_lines(self) -> None:
        self.stream.begin(self.out)
        self.sent()
        self.admitted, self.now = False, b"2"
        self.clock.advance(EVERY_S)
        self.assertTrue(self.out.finished)
        self.assertEqual(self.sent(), b"")

    def test_an_idle_stream_ends_at_the_next_heartbeat_without_the_right(self) -> None:
        self.stream.begin(self.out)
        self.admitted = False
        self.clock.pump([EVERY_S] * int(BEAT_S))
        self.assertTrue(self.out.finished)

    def test_a_stream_above_the_share_ends_the_oldest_of_its_account(self) -> None:
        self.stream.begin(self.out)
        self.sent()
        for _ in range(SHARE - 1):
            self.streams.answer(self.look, self.reader("ann"))
        self.streams.answer(self.look, self.reader("bob"))
        self.assertFalse(self.out.finished)
        self.streams.answer(self.look, self.reader("ann"))
        self.assertTrue(self.out.finished)
        self.assertIn(FULL, self.out.transport.value())

    def test_an_ended_stream_makes_room_for_a_new_stream(self) -> None:
        self.fill()
        self.stream.begin(self.out)
        self.assertRaises(Unavailable, self.streams.answer, self.look, self.reader("bob"))
        self.stream.over()
        self.streams.answer(self.look, self.reader("bob"))

    def test_an_owner_gets_in_where_all_streams_are_taken(self) -> None:
        self.fill()
        self.assertRaises(Unavailable, self.streams.answer, self.look, self.reader("bob"))
        for _ in range(SHARE + 1):
            self.streams.answer(self.look, self.reader("olga", owner=True))


class SharedLookTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.reads = Clock(), list[Deferred[bytes | None]]()
        self.shared = SharedLook(self.read, 2.0, self.clock.seconds)

    async def read(self) -> bytes | None:
        self.reads.append(Deferred())
        return await self.reads[-1]

    def ask(self) -> Deferred[bytes | None]:
        return Deferred.fromCoroutine(self.shared())

    def test_streams_that_ask_at_once_share_one_read(self) -> None:
        first, second = self.ask(), self.ask()
        self.reads[0].callback(b"1")
        self.assertEqual([self.successResultOf(look) for look in (first, second)], [b"1", b"1"])
        self.assertEqual(self.successResultOf(self.ask()), b"1")
        self.assertEqual(len(self.reads), 1)
        self.clock.advance(2.0)
        self.ask()
        self.assertEqual(len(self.reads), 2)

    def test_a_new_page_reads_again_at_once(self) -> None:
        self.ask()
        self.reads[0].callback(b"1")
        self.shared.forget()
        fresh = self.ask()
        self.reads[1].callback(b"2")
        self.assertEqual(self.successResultOf(fresh), b"2")

    def test_a_stream_that_ends_does_not_cancel_the_read_of_others(self) -> None:
        first, second = self.ask(), self.ask()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.reads[0].callback(b"1")
        self.assertEqual(self.successResultOf(second), b"1")

    def test_a_failed_read_fails_for_all_and_is_repeated(self) -> None:
        looks = [self.ask(), self.ask()]
        self.reads[0].errback(Unavailable("away"))
        for look in looks:
            self.failureResultOf(look, Unavailable)
        self.ask()
        self.assertEqual(len(self.reads), 2)

    def test_a_read_that_never_ends_is_repeated(self) -> None:
        first = self.ask()
        self.clock.advance(STALLED_S)
        second = self.ask()
        self.reads[1].callback(b"1")
        self.assertEqual([self.successResultOf(look) for look in (first, second)], [b"1", b"1"])
