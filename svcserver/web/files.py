"""Sends part of a file as a response body, with constant memory and back-pressure.

On plain TCP, ``os.sendfile`` sends the file; for this, a transfer replaces the transport's
``doWrite``. With TLS, on Windows, and on file systems or transports without sendfile, a producer
reads ``CHUNK`` bytes at a time. This takes three times the CPU time of sendfile.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

from attrs import define, field
from twisted.internet import tcp
from twisted.internet.interfaces import IPushProducer
from twisted.internet.main import CONNECTION_LOST
from twisted.logger import Logger
from zope.interface import implementer

from svcserver.http.prompt import is_usable
from svcserver.kernel.buggify import buggify
from svcserver.kernel.every import Every
from svcserver.web.ranges import Span
from svcserver.web.response import Stream

log = Logger()

CHUNK = 64 * 1024  # bytes read at a time by the producer
KERNEL_CHUNK = 1024 * 1024  # bytes per sendfile, so that other downloads get their share
AHEAD = 4 * 1024 * 1024  # bytes the kernel reads ahead, so that sendfile does not wait for disk
STALL_S = 120.0  # how long a client may read nothing
SWEEP_S = 5.0
_NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSOCK)


@define(eq=False)
class Transfer(Stream):
    """A body that is being sent; ``ended(sent bytes, complete)`` is called exactly once.

    If the file has become too short, ``shrank`` is called and the connection is aborted. The client
    has no other way to notice that bytes are missing.
    """

    file: BinaryIO
    span: Span
    ended: Callable[[int, bool], None]
    shrank: Callable[[], None]
    watched: Transfers
    at: int = field(init=False)
    out: Any = field(default=None, init=False)  # the channel; the head is written
    _kernel: _Kernel | None = field(default=None, init=False)
    _socket: Any = field(default=None, init=False)
    _moved_at: float = field(default=0.0, init=False)
    _last_position: int = field(default=-1, init=False)

    def __attrs_post_init__(self) -> None:
        self.at = self.span.start

    def begin(self, out: Any) -> None:
        self.out = out
        self.watched.add(self)
        transport = kernel_transport(out)
        if self.span.length == 0:
            out.finish()
        elif transport is None:
            _Producer(self).begin()
        else:
            self._socket = transport.socket
            self._kernel = _Kernel(self, transport)
            self._kernel.begin()

    def stalled(self, now: float) -> bool:
        """Return whether the client has received nothing for ``STALL_S``; ``now`` is in seconds."""
        position = self.at - _unsent(self._socket)
        if position != self._last_position:
            self._last_position, self._moved_at = position, now
        return now - self._moved_at >= STALL_S

    def cut(self) -> None:
        self.out.transport.abortConnection()

    def failed(self, why: OSError | None) -> None:
        """Report that the file ended early (``why`` is None) or could not be read."""
        if why is None:
            self.shrank()
        else:
            log.error("a file cannot be read: {why}", why=why.strerror)

    def over(self) -> None:
        self.watched.discard(self)
        if self._kernel is not None:
            self._kernel.unhook()
        self.file.close()
        self.ended(self.at - self.span.start, self.at == self.span.end)


@define(eq=False)
class _Kernel:
    """A sender that uses ``os.sendfile``, so that the bytes never enter this process."""

    transfer: Transfer
    transport: Any
    _asked_to: int = field(default=0, init=False)

    def begin(self) -> None:
        self.transport.doWrite = self._do_write
        self.transport.startWriting()

    def _do_write(self) -> Any:
        transport, transfer = self.transport, self.transfer
        if transport.dataBuffer or transport._tempDataBuffer:
            result = type(transport).doWrite(transport)
            transport.startWriting()  # an emptied buffer switched writing off
            return result
        file = transfer.file.fileno()
        self._read_ahead(file)
        count = min(KERNEL_CHUNK, transfer.span.end - transfer.at)
        try:
            sent = os.sendfile(transport.socket.fileno(), file, transfer.at, count)
        except BlockingIOError:
            return None
        except OSError as why:
            return self._refused(why)
        if sent == 0:
            transfer.failed(None)
            return CONNECTION_LOST
        transfer.at += sent
        if transfer.at == transfer.span.end:
            self.unhook()
            if not transport.disconnecting:
                transport.stopWriting()
            transfer.out.finish()
        return None

    def _read_ahead(self, file: int) -> None:
        at = self.transfer.at
        if at >= self._asked_to and hasattr(os, "posix_fadvise"):
            self._asked_to = at + AHEAD
            ahead = min(2 * AHEAD, self.transfer.span.end - at)
            os.posix_fadvise(file, at, ahead, os.POSIX_FADV_WILLNEED)

    def _refused(self, why: OSError) -> Any:
        if why.errno in _NO_SENDFILE:
            self.unhook()
            self.transport.stopWriting()
            _Producer(self.transfer).begin()
            return None
        if why.errno == errno.EIO:
            self.transfer.failed(why)
        return CONNECTION_LOST  # the client has disconnected, which needs no log line

    def unhook(self) -> None:
        """Restore the transport's ``doWrite``, unless another transfer has replaced the method."""
        if self.transport.__dict__.get("doWrite") == self._do_write:
            del self.transport.doWrite


@implementer(IPushProducer)
@define(eq=False)
class _Producer:
    """A sender that reads the next piece of the file when the transport accepts more data."""

    transfer: Transfer
    _paused: bool = field(default=True, init=False)

    def begin(self) -> None:
        self.transfer.out.transport.registerProducer(self, True)
        self.resumeProducing()

    def pauseProducing(self) -> None:
        self._paused = True

    def stopProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        transfer, self._paused = self.transfer, False
        while not self._paused and transfer.at < transfer.span.end:
            try:
                transfer.file.seek(transfer.at)
                data = transfer.file.read(min(CHUNK, transfer.span.end - transfer.at))
            except OSError as why:
                return self._give_up(why)
            if not data:
                return self._give_up(None)
            if buggify("content: a piece is cut in the middle"):
                transfer.out.transport.write(data[: len(data) // 2])
                self._paused = True
                transfer.cut()
                return None
            transfer.at += len(data)
            transfer.out.transport.write(data)
        if transfer.at == transfer.span.end and not transfer.file.closed:
            transfer.out.transport.unregisterProducer()
            transfer.out.finish()

    def _give_up(self, why: OSError | None) -> None:
        self._paused = True
        self.transfer.failed(why)
        self.transfer.cut()


@define
class Transfers:
    """The running transfers; stalled transfers are aborted."""

    _running: dict[Transfer, None] = field(factory=dict, init=False)

    def add(self, transfer: Transfer) -> None:
        self._running[transfer] = None

    def discard(self, transfer: Transfer) -> None:
        self._running.pop(transfer, None)

    def sweep(self, now: float) -> None:
        """Abort the stalled transfers; ``now`` is in seconds."""
        for transfer in [running for running in self._running if running.stalled(now)]:
            log.info(
                "a client read nothing for {seconds} s; its connection is closed",
                seconds=int(STALL_S),
            )
            transfer.cut()

    def __len__(self) -> int:
        return len(self._running)


def sweeping(transfers: Transfers, reactor: Any) -> Every:
    """Return the service that aborts stalled transfers."""
    what = "the check for stalled downloads"
    return Every(reactor, SWEEP_S, lambda: transfers.sweep(reactor.seconds()), what)


def kernel_transport(out: Any) -> Any:
    """Return the plain TCP transport of ``out`` if sendfile works, else None."""
    transport = out.transport
    plain = isinstance(transport, tcp.Connection) and is_usable(transport) and not transport.TLS
    return transport if plain and hasattr(os, "sendfile") else None


def _unsent(socket: Any) -> int:
    """Return the number of bytes that the peer has not acknowledged, or 0 if it is unknown."""
    if socket is None:
        return 0
    try:
        import fcntl
        import termios

        answer = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    except (ImportError, OSError, ValueError):
        return 0
    count: int = struct.unpack("i", answer)[0]
    return count
