"""Sending files: with and without the kernel's sendfile, to stalled readers, while files shrink."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attrs import define
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Connection
from twisted.internet.testing import MemoryReactor
from twisted.trial.unittest import SynchronousTestCase

from svcserver.web import files
from svcserver.web.files import STALL_S, Transfer, Transfers
from svcserver.web.ranges import Span
from tests.support.proves import proves

BODY = os.urandom(3 * 1024 * 1024)


class Wire:
    """A transport over a real socket pair, without a reactor; the test calls ``turn``."""

    def __init__(self) -> None:
        self.socket, self.far = socket.socketpair()
        self.socket.setblocking(False)
        self.far.setblocking(False)
        self.dataBuffer = b"HEAD"
        self._tempDataBuffer: list[bytes] = []
        self.disconnecting = False
        self.writing = False
        self.aborted = False

    def doWrite(self) -> None:
        self.socket.send(self.dataBuffer)
        self.dataBuffer = b""
        self.writing = False

    def startWriting(self) -> None:
        self.writing = True

    def stopWriting(self) -> None:
        self.writing = False

    def abortConnection(self) -> None:
        self.aborted = True

    def turn(self, *, read: bool = True) -> tuple[Any, bytes]:
        """Write as much as the socket accepts; return what the other end received."""
        text, got = None, b""
        for _ in range(500):
            if not self.writing or text is not None:
                break
            text = self.doWrite()
            if read:
                got += self.receive()
        return text, got

    def receive(self) -> bytes:
        got = b""
        while True:
            try:
                data = self.far.recv(1 << 20)
            except BlockingIOError:
                return got
            if not data:
                return got
            got += data

    def close(self) -> None:
        self.socket.close()
        self.far.close()


@define(eq=False)
class Out:
    """A fake channel and transport with the parts that a transfer uses."""

    wire: Wire
    written: bytes = b""
    finished: bool = False
    producer: Any = None
    pause_after: int = 1 << 30
    stream: Any = None

    @property
    def transport(self) -> Out:
        return self

    def write(self, data: bytes) -> None:
        self.written += data
        if self.producer is not None and len(self.written) >= self.pause_after:
            self.producer.pauseProducing()

    def abortConnection(self) -> None:
        self.wire.abortConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert streaming
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def finish(self) -> None:
        self.finished = True
        self.stream.over()


class TransferCase(SynchronousTestCase):
    kernel = True

    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = folder / "a.pak"
        self.path.write_bytes(BODY)
        self.wire = Wire()
        self.addCleanup(self.wire.close)
        self.out = Out(self.wire)
        self.watched = Transfers()
        self.ends: list[tuple[int, bool]] = []
        self.shrunk: list[bool] = []
        chosen: Callable[[Any], Any] = lambda _: self.wire if self.kernel else None  # noqa: E731
        self.patch(files, "kernel_transport", chosen)

    def begin(self, start: int = 0, end: int = len(BODY)) -> Transfer:
        file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - the transfer closes it
        span = Span(start, end, len(BODY))
        transfer = Transfer(
            file,  # type: ignore[arg-type]
            span,
            lambda sent, complete: self.ends.append((sent, complete)),
            lambda: self.shrunk.append(True),
            self.watched,
        )
        self.out.stream = transfer
        transfer.begin(self.out)
        return transfer


class KernelTests(TransferCase):
    def test_the_head_and_then_the_span_are_sent_with_sendfile(self) -> None:
        self.begin(1000, 2_500_000)
        text, got = self.wire.turn()
        self.assertIsNone(text)
        self.assertEqual(got, b"HEAD" + BODY[1000:2_500_000])
        self.assertTrue(self.out.finished)
        self.assertEqual(self.ends, [(2_499_000, True)])
        self.assertNotIn("doWrite", self.wire.__dict__)
        self.assertFalse(self.wire.writing)

    @proves("limit: stalled reader")
    def test_a_reader_that_does_not_read_is_not_buffered_for(self) -> None:
        transfer = self.begin()
        self.wire.turn(read=False)
        self.assertLess(transfer.at, len(BODY))
        self.assertEqual(self.out.written, b"")
        self.out.stream.over()
        self.assertEqual(self.ends, [(transfer.at, False)])
        self.assertTrue(transfer.file.closed)
        self.assertNotIn("doWrite", self.wire.__dict__)

    def test_a_file_that_shrank_cuts_the_connection(self) -> None:
        self.begin()
        os.truncate(self.path, 100_000)
        text, got = self.wire.turn()
        self.assertEqual((text, len(got)), (CONNECTION_LOST, 4 + 100_000))
        self.out.stream.over()
        self.assertEqual(self.shrunk, [True])

    def test_without_sendfile_the_producer_continues(self) -> None:
        real, calls = os.sendfile, list[int]()

        def broken(out: int, source: int, at: int, count: int) -> int:
            calls.append(at)
            if len(calls) > 2:
                raise OSError(errno.EINVAL, "not here")
            return real(out, source, at, min(count, 1000))

        self.patch(os, "sendfile", broken)
        self.begin()
        _, got = self.wire.turn()
        self.assertEqual(got + self.out.written, b"HEAD" + BODY)
        self.assertEqual(self.ends, [(len(BODY), True)])

    def test_a_lost_reader_or_a_broken_disk_ends_only_its_own_transfer(self) -> None:
        for number in (errno.EPIPE, errno.ECONNRESET, errno.EIO):

            def broken(*_: int, number: int = number) -> int:
                raise OSError(number, "gone")

            self.patch(os, "sendfile", broken)
            transfer = self.begin()
            self.wire.dataBuffer = b""
            self.assertIs(self.wire.doWrite(), CONNECTION_LOST)
            self.out.stream.over()
            self.assertTrue(transfer.file.closed)
            self.assertEqual(self.shrunk, [])

    @proves("limit: stalled reader")
    def test_a_reader_is_stalled_only_after_two_minutes_without_progress(self) -> None:
        self.begin()
        self.wire.turn(read=False)
        self.watched.sweep(0)
        self.watched.sweep(STALL_S - 1)
        self.assertFalse(self.wire.aborted)
        self.wire.far.recv(500_000)
        self.wire.turn(read=False)
        self.watched.sweep(STALL_S + 1)
        self.assertFalse(self.wire.aborted)
        self.watched.sweep(2 * STALL_S + 1)
        self.assertTrue(self.wire.aborted)
        self.out.stream.over()


class ProducerTests(TransferCase):
    kernel = False

    def test_the_span_is_written_and_the_file_closed(self) -> None:
        transfer = self.begin(10, 200_000)
        self.assertEqual(self.out.written, BODY[10:200_000])
        self.assertEqual(self.ends, [(199_990, True)])
        self.assertTrue(transfer.file.closed and self.out.producer is None)

    def test_the_producer_pauses_and_resumes(self) -> None:
        self.out.pause_after = 100_000
        self.begin()
        self.assertLess(len(self.out.written), 200_000)
        self.out.pause_after = 1 << 30
        self.out.producer.resumeProducing()
        self.assertEqual(self.out.written, BODY)

    def test_a_lost_connection_ends_the_transfer(self) -> None:
        self.out.pause_after = 1
        transfer = self.begin()
        self.out.producer.stopProducing()
        self.out.stream.over()
        self.assertEqual(self.ends, [(transfer.at, False)])

    def test_a_file_that_shrank_cuts_the_connection(self) -> None:
        os.truncate(self.path, 100_000)
        self.begin()
        self.assertEqual((len(self.out.written), self.shrunk), (100_000, [True]))
        self.assertTrue(self.wire.aborted)
        self.out.stream.over()


class ChoiceTests(SynchronousTestCase):
    def test_without_a_private_attribute_of_the_transport_a_producer_sends_the_file(self) -> None:
        near, far = socket.socketpair()
        self.addCleanup(near.close)
        self.addCleanup(far.close)
        connection = Connection(near, Protocol(), MemoryReactor())
        out = SimpleNamespace(transport=connection)
        self.assertIs(files.kernel_transport(out), connection)
        del connection._tempDataBuffer
        self.assertIsNone(files.kernel_transport(out))
