"""The memory that a channel uses, and releases, for clients that read slowly."""

from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.counters import Counted
from svcserver.web import channel as channel_module
from svcserver.web.channel import FAIR, PROMPT, WebChannel
from svcserver.web.routes import Answer
from svcserver.web.site import HttpFactory
from tests.edge.wires import Wire
from tests.support.game import Game
from tests.support.proves import proves
from tests.web.test_channel import GET, Slow


class MemoryTests(SynchronousTestCase):
    """The total size of all request bodies is limited, but ordinary saves are never rejected."""

    def setUp(self) -> None:
        self.factory = HttpFactory(Game(self).door, MemoryReactorClock())

    def connect(self) -> tuple[WebChannel, Wire]:
        channel = self.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        wire = Wire(channel)
        channel.makeConnection(wire)
        self.addCleanup(wire.abortConnection)
        return channel, wire

    def upload(self, size: int) -> tuple[WebChannel, Wire]:
        channel, wire = self.connect()
        channel.dataReceived(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n")
        channel.dataReceived(b" " * size)
        return channel, wire

    @proves("bounded bodies, fair to small ones")
    def test_with_full_memory_a_large_body_is_503_and_a_small_body_passes(self) -> None:
        self.patch(channel_module, "MAX_HELD", 1_000_000)
        _, first = self.upload(900_000)
        self.assertEqual(self.factory.held, 900_000)
        self.assertEqual(first.value(), b"")
        _, second = self.upload(FAIR + 1)
        self.assertTrue(second.value().startswith(b"HTTP/1.1 503 "))
        self.assertIn(b"Retry-After: 1\r\n", second.value())
        self.assertEqual(self.factory.held, 900_000)
        _, third = self.upload(FAIR)
        self.assertEqual(third.value(), b"")

    def test_finished_requests_release_their_memory(self) -> None:
        channel, wire = self.upload(100)
        wire.abortConnection()
        self.assertEqual(self.factory.held, 0)
        channel, wire = self.connect()
        channel.dataReceived(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        self.assertTrue(wire.value().startswith(b"HTTP/1.1 200 "))
        self.assertEqual(self.factory.held, 0)

    def unread(self, size: int) -> tuple[Slow, WebChannel, Wire]:
        """Return a connection whose client does not read an answer of this size."""
        self.factory.front = front = Slow()
        channel, wire = self.connect()
        channel.dataReceived(GET)
        write, wire.stalled = wire.write, True
        self.patch(
            wire, "write", lambda data: [write(data), wire.stalled and channel.pauseProducing()]
        )
        front.work[-1].callback(Answer(200, b"x" * size))
        return front, channel, wire

    def test_the_longest_waiting_unread_answer_is_cut(self) -> None:
        self.factory.unread.most = 3 * FAIR
        _, little, small = self.unread(FAIR // 2)
        _, _, first = self.unread(2 * FAIR)
        _, reading, second = self.unread(FAIR + 1)
        self.assertEqual([wire.ended for wire in (small, first, second)], ["", "cut", ""])
        little.resumeProducing()
        self.assertEqual(self.factory.unread.total, FAIR + 1 + PROMPT)
        # only one piece is buffered while the client waits
        self.assertLess(len(second.value()), FAIR // 2)
        second.stalled = False
        reading.resumeProducing()
        self.assertEqual(self.factory.unread.total, 0)
        self.assertTrue(second.value().endswith(b"x" * (FAIR + 1)))
        self.assertFalse(reading.busy)
        _, _, third = self.unread(9 * FAIR)  # a single answer may be as large as it is
        self.assertEqual([wire.ended for wire in (small, second, third)], ["", "", ""])
        third.abortConnection()
        self.assertEqual(self.factory.unread.total, 0)
        counted = self.factory.unread.counters.by_reason(Counted.EVICTED_CONNECTIONS)
        self.assertEqual(dict(counted), {"unread_answer": 1})

    def test_many_small_answers_that_nobody_reads_have_the_same_bound(self) -> None:
        self.factory.unread.most = 3 * PROMPT
        wires = [self.unread(PROMPT)[2] for _ in range(5)]
        self.assertEqual([wire.ended for wire in wires], ["cut", "cut", "", "", ""])
        self.assertEqual(self.factory.unread.total, 3 * PROMPT)
        _, _, large = self.unread(2 * FAIR)
        _, _, small = self.unread(PROMPT)
        self.assertEqual((large.ended, small.ended), ("cut", ""))

    def test_garbage_leaves_one_log_line_a_minute(self) -> None:
        with capturedLogs() as events:
            for _ in range(3):
                channel, _ = self.connect()
                channel.dataReceived(b"GET / HTTP/9.9\r\n\r\n")
        event = [event["kind"] for event in events if "kind" in event]
        self.assertEqual(event, ["request line"])
