"""What a child process prints, line by line, and its end."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

LONGEST = 65_536  # bytes; a longer line is split


@define
class Lines:
    """Splits a byte stream into lines; ``tell`` gets each without its line end."""

    tell: Callable[[str], None]
    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._say(line)
        while len(self._rest) >= LONGEST:
            piece, self._rest = self._rest[:LONGEST], self._rest[LONGEST:]
            self._say(piece)

    def end(self) -> None:
        """Pass on a last line without line end."""
        rest, self._rest = self._rest, b""
        if rest:
            self._say(rest)

    def _say(self, line: bytes) -> None:
        self.tell(line.decode("utf-8", "replace").rstrip("\r"))


class LinesAndEnd(ProcessProtocol):
    """Gives every line of both outputs to ``tell``, and how the process ended to ``over``."""

    def __init__(self, tell: Callable[[str], None], over: Callable[[Failure], None]) -> None:
        self._out, self._err = Lines(tell), Lines(tell)
        self._over = over

    def outReceived(self, data: bytes) -> None:
        self._out.feed(data)

    def errReceived(self, data: bytes) -> None:
        self._err.feed(data)

    def processEnded(self, reason: Failure) -> None:
        self._out.end()
        self._err.end()
        self._over(reason)
