"""A log writer with its own thread, so that a stalled reader does not block the service.

A pipe whose reader stalls accepts no more bytes. A write to this pipe would block the reactor and
so the whole service. The thread buffers unwritten lines, up to ``MOST`` bytes. Beyond that limit
the oldest lines are dropped, and the next written line reports how many.
"""

import atexit
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Protocol, TextIO

from attrs import define, field, frozen

MOST = 1024 * 1024  # maximum bytes of lines waiting for the reader
PIECE = 64 * 1024  # bytes per write, about the capacity of a pipe
LAST_WORDS_S = 2.0  # how long an ending process waits for its last lines to be read


class LogDestination(Protocol):
    """A destination of log lines, such as standard output."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class Nowhere:
    """A ``LogDestination`` that drops everything, for a process without standard output."""

    def write(self, text: str, /) -> None: ...

    def flush(self) -> None: ...


@frozen
class Batch:
    """The next lines to write, and the number of lines dropped before them."""

    dropped: int
    data: bytes


@define
class Backlog:
    """A bounded queue of lines to write, which drops the oldest lines; it is not thread-safe."""

    most: int = MOST
    dropped: int = field(default=0, init=False)  # lines, since the start
    _unsaid: int = field(default=0, init=False)  # dropped lines that no log line has reported yet
    _held: int = field(default=0, init=False)
    _waiting: deque[bytes] = field(factory=deque, init=False)

    def put(self, data: bytes) -> None:
        """Queue whole lines until they can be written; if the queue is full, drop the oldest."""
        self._waiting.append(data)
        self._held += len(data)
        while self._held > self.most:
            oldest = self._waiting.popleft()
            self._held -= len(oldest)
            last_lines = b"" if self._waiting else _last_lines(oldest, self.most)
            self._lose(oldest[: len(oldest) - len(last_lines)])
            if last_lines:
                self._waiting.append(last_lines)
                self._held += len(last_lines)

    def take(self) -> Batch:
        """Remove and return the oldest lines, about ``PIECE`` bytes of them."""
        taken, size = [], 0
        while self._waiting and size < PIECE:
            taken.append(self._waiting.popleft())
            size += len(taken[-1])
        self._held -= size
        batch, self._unsaid = Batch(self._unsaid, b"".join(taken)), 0
        return batch

    def failed(self, batch: Batch) -> None:
        """Count the lines of ``batch`` as dropped, because they could not be written."""
        self._unsaid += batch.dropped
        self._lose(batch.data)

    def _lose(self, data: bytes) -> None:
        lines = data.count(b"\n")
        self.dropped += lines
        self._unsaid += lines

    def __len__(self) -> int:
        return len(self._waiting)


def _last_lines(data: bytes, most: int) -> bytes:
    """Return the last whole lines of ``data`` that fit in ``most`` bytes."""
    end_of_line = data.find(b"\n", len(data) - most - 1)
    return data[end_of_line + 1 :] if end_of_line >= 0 else b""


@define(eq=False, slots=False)
class LogWriter:
    """A ``LogDestination`` whose ``write`` returns immediately.

    ``send`` writes some bytes and returns their number; it can block. ``line_of_dropped`` returns
    the log line that reports a number of dropped lines.
    """

    send: Callable[[memoryview], int]
    line_of_dropped: Callable[[int], str] = "{} log lines were dropped\n".format
    backlog: Backlog = field(factory=Backlog)
    _changed: Condition = field(factory=Condition, init=False)
    _thread: Thread | None = field(default=None, init=False)
    _idle: bool = field(default=True, init=False)
    _deadline: float | None = field(default=None, init=False)

    def write(self, text: str, /) -> None:
        """Queue whole lines; the thread writes them soon."""
        data = text.encode("utf-8", "backslashreplace")
        with self._changed:
            self.backlog.put(data)
            self._changed.notify_all()
            if self._thread is None or not self._thread.is_alive():  # a fork has no threads
                self._begin()

    def flush(self) -> None:
        """If the process is ending, wait until all lines are written, or until the deadline."""
        if self._deadline is None:
            return
        with self._changed:
            self._changed.wait_for(self._is_done, max(0.0, self._deadline - time.monotonic()))

    def end(self) -> None:
        """Wait at most ``LAST_WORDS_S`` until all lines are written; called when the process ends.

        A later ``flush`` waits at most for the rest of this time.
        """
        if self._deadline is None:
            self._deadline = time.monotonic() + LAST_WORDS_S
        self.flush()

    def dropped(self) -> int:
        return self.backlog.dropped

    def _begin(self) -> None:
        if self._thread is None:
            atexit.register(self.end)
        self._thread = Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def _is_done(self) -> bool:
        return self._idle and not self.backlog

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle = True
                self._changed.notify_all()
                self._changed.wait_for(self._has_work)
                self._idle = False
                batch = self.backlog.take()
            try:
                if batch.dropped:
                    self._send(self.line_of_dropped(batch.dropped).encode())
                self._send(batch.data)
            except OSError:  # it cannot be logged now; it is counted, and reported in a later line
                with self._changed:
                    self.backlog.failed(batch)

    def _has_work(self) -> bool:
        return len(self.backlog) > 0

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest) :]


def writer_to(stream: TextIO | None) -> LogWriter | None:
    """Return a writer for the stream's file descriptor, or None if the stream has none."""
    try:
        number = stream.fileno() if stream is not None else -1
    except (OSError, ValueError, AttributeError):
        number = -1
    return None if number < 0 else LogWriter(lambda data: _write(number, data))


def _write(number: int, data: memoryview) -> int:
    try:
        return os.write(number, data)
    except BlockingIOError:  # a terminal that another program left non-blocking
        select.select([], [number], [])
        return 0


def writers() -> tuple[LogDestination, LogDestination, list[LogWriter]]:
    """Return the destinations for standard output and standard error, and their writers.

    The caller must end the writers. If both streams go to the same file, as with ``2>&1``, one
    writer keeps the lines in order.
    """
    out = writer_to(sys.stdout)
    if out is not None and is_same_file(sys.stdout, sys.stderr):
        return out, out, [out]
    err = writer_to(sys.stderr)
    log_writers = [writer for writer in (out, err) if writer is not None]
    return out or sys.stdout or Nowhere(), err or sys.stderr or Nowhere(), log_writers


def is_same_file(first: TextIO | None, second: TextIO | None) -> bool:
    """Return whether both streams go to the same file, as with ``2>&1``."""
    if first is None or second is None:
        return False
    try:
        return os.path.sameopenfile(first.fileno(), second.fileno())
    except (OSError, ValueError, AttributeError):
        return False
