"""The output of a child process, line by line, and the report of its exit."""

from collections.abc import Callable

from attrs import define, field
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

LONGEST = 65_536  # bytes; a longer line is split


@define
class Lines:
    """A splitter that calls ``on_line`` with each line of the input, without its line end."""

    on_line: Callable[[str], object]
    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._pass_on(line)
        while len(self._rest) >= LONGEST:
            piece, self._rest = self._rest[:LONGEST], self._rest[LONGEST:]
            self._pass_on(piece)

    def end(self) -> None:
        """Pass on the last line if it has no line break."""
        rest, self._rest = self._rest, b""
        if rest:
            self._pass_on(rest)

    def _pass_on(self, line: bytes) -> None:
        self.on_line(line.decode("utf-8", "replace").rstrip("\r"))


class LinesAndEnd(ProcessProtocol):
    """A protocol that passes all lines of a process to ``on_line``, and its exit to ``on_end``."""

    def __init__(self, on_line: Callable[[str], object], on_end: Callable[[Failure], None]) -> None:
        self._out, self._err = Lines(on_line), Lines(on_line)
        self._report_end = on_end

    def outReceived(self, data: bytes) -> None:
        self._out.feed(data)

    def errReceived(self, data: bytes) -> None:
        self._err.feed(data)

    def processEnded(self, reason: Failure) -> None:
        self._out.end()
        self._err.end()
        self._report_end(reason)
