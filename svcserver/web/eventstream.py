"""Server-sent events: an answer that stays open and gets a line for each change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Refusal, Unavailable
from svcserver.web.response import Stream
from svcserver.web.routes import Answer

log = Logger()

EVERY_S = 1.0  # between two calls of ``read_line``
BEAT_S = 5.0  # after so long without a line, send a heartbeat
LIVES_S = 30.0  # then the reader reconnects
STALLED_S = 30.0  # a reader that reads nothing for so long is cut off
MOST = 32  # concurrent streams, not counting those of owners
SHARE = 8  # concurrent streams of one reader
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "Transfer-Encoding": "chunked",  # the length is unknown
}
BEAT = b": still here\n\n"
FULL = b"event: full\ndata: {}\n\n"  # the reader should not reconnect at once

Look = Callable[[], Awaitable[bytes | None]]
"""A function that returns the current line, or None if nothing is new."""


@define(eq=False)
class SharedLook:
    """A ``Look`` that many streams share, so that ``look`` is not called for each stream.

    ``look`` is called at most once per ``every_s`` seconds.
    """

    look: Look
    every_s: float
    now: Callable[[], float]
    _read_at: float = field(default=float("-inf"), init=False)
    _line: bytes | None = field(default=None, init=False)
    _waiting: list[Deferred[bytes | None]] = field(factory=list, init=False)
    _began: float = field(default=float("-inf"), init=False)  # when the current read began

    def forget(self) -> None:
        """Discard the stored line, so that the next call reads a new line."""
        self._read_at = float("-inf")

    async def __call__(self) -> bytes | None:
        """Return a result of ``look``, at most ``every_s`` old; concurrent calls share it."""
        if 0 <= self.now() - self._read_at < self.every_s:
            return self._line
        waiting: Deferred[bytes | None] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        if not 0 <= self.now() - self._began < STALLED_S:  # otherwise a read is in progress
            self._began = self.now()
            ensureDeferred(self._read_line())
        return await waiting

    async def _read_line(self) -> None:
        error = None
        try:
            self._line = await self.look()
            self._read_at = self.now()
        except Exception as caught:  # each stream handles it
            error = caught
        self._began = float("-inf")
        waiting, self._waiting = self._waiting, []
        while waiting:
            deferred = waiting.pop(0)
            deferred.callback(self._line) if error is None else deferred.errback(error)


@frozen
class Reader:
    """The reader of a stream; ``check`` raises a refusal if access was revoked."""

    id: str
    owner: bool
    check: Callable[[], Awaitable[object]]


@define(eq=False)
class EventStream(Stream):
    """A stream that calls ``read_line`` every ``EVERY_S`` seconds and sends each changed line.

    Before each line, the reader's access is checked.
    """

    clock: IReactorTime
    read_line: Look
    reader: Reader
    ended: Callable[[EventStream], object]
    _out: Any = field(default=None, init=False)
    _rounds: Every = field(init=False)
    _work: Deferred[None] | None = field(default=None, init=False)
    _began: float = field(default=0.0, init=False)
    _wrote: float = field(default=0.0, init=False)
    _last: bytes | None = field(default=None, init=False)
    _paused_at: float | None = field(default=None, init=False)

    @_rounds.default
    def _every(self) -> Every:
        return Every(self.clock, EVERY_S, self._round, "a stream of events", at_once=True)

    def begin(self, out: Any) -> None:
        self._out = out
        out.transport.registerProducer(self, True)
        self._began = self.clock.seconds()
        self._write(BEAT)
        self._rounds.startService()

    def half_closed(self) -> None:
        """Disconnect, because a browser that leaves the page closes only its sending side."""
        self._out.transport.abortConnection()

    def over(self) -> None:
        self._out = None
        self._rounds.stopService()
        if self._work is not None:
            self._work.cancel()
        self.ended(self)

    # the transport calls these methods when the reader is too slow
    def pauseProducing(self) -> None:
        self._paused_at = self.clock.seconds()

    def resumeProducing(self) -> None:
        self._paused_at = None

    def stopProducing(self) -> None:
        self._paused_at = None

    def finish(self) -> None:
        """End the stream without an error; the reader then opens a new stream."""
        self._rounds.stopService()
        if self._out is not None:
            self._out.transport.unregisterProducer()
            self._out.finish()

    def yield_place(self) -> None:
        """End the stream, and tell its reader that a newer stream has replaced it."""
        if self._out is not None and self._paused_at is None:
            self._write(FULL)
        self.finish()
        self.ended(self)

    def _round(self) -> Deferred[None] | None:
        now = self.clock.seconds()
        if self._paused_at is not None:
            if now - self._paused_at >= STALLED_S:
                self._rounds.stopService()
                self._out.transport.abortConnection()
            return None
        if now - self._began >= LIVES_S:
            self.finish()
            return None
        self._work = Deferred.fromCoroutine(self._write_line())
        return self._work.addErrback(lambda why: why.trap(CancelledError) and None)

    async def _write_line(self) -> None:
        try:
            line = await self.read_line()
            fresh = line is not None and line != self._last
            if not fresh and self.clock.seconds() - self._wrote < BEAT_S:
                return
            await self.reader.check()
        except CancelledError:  # the reader has disconnected
            return
        except Refusal:
            self.finish()
            return
        except Exception:
            log.failure("an event stream failed")
            self.finish()
            return
        if self._out is None:
            return
        if line is not None and fresh:
            self._last = line
            self._write(b"data: %b\n\n" % line)
        else:
            self._write(BEAT)

    def _write(self, text: bytes) -> None:
        self._wrote = self.clock.seconds()
        self._out.write(text)


@define(eq=False)
class EventStreams:
    """All open event streams of a service.

    A reader may have ``SHARE`` streams; a further stream ends the reader's oldest stream. All
    readers together, except the host's owners, may have ``MOST`` streams.
    """

    clock: IReactorTime
    _open: dict[EventStream, None] = field(factory=dict, init=False)  # the oldest first

    def answer(self, read_line: Look, reader: Reader) -> Answer:
        """Return an answer that streams the lines of ``read_line``.

        Readers who are not owners share ``MOST`` streams. Raises Unavailable if all are in use.
        """
        own = [stream for stream in self._open if stream.reader.id == reader.id]
        others = sum(not stream.reader.owner for stream in self._open)
        if len(own) >= SHARE:
            own[0].yield_place()
        elif not reader.owner and others >= MOST:
            raise Unavailable("too many pages of staff are open. Close some of them.")
        stream = EventStream(self.clock, read_line, reader, self._forget)
        self._open[stream] = None
        return Answer(200, stream, HEADERS)

    def _forget(self, stream: EventStream) -> None:
        self._open.pop(stream, None)
