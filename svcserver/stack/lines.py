"""A child's output, line by line, with its name in front."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

LONGEST = 65_536  # bytes; a longer line is passed on in pieces


@define
class Lines:
    """Cuts a byte stream into lines; ``tell`` gets each without its end."""

    tell: Callable[[str], None]
    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._say(line)
        while len(self._rest) >= LONGEST:
            piece, self._rest = self._rest[:LONGEST], self._rest[LONGEST:]
            self._say(piece)

    def end(self) -> None:
        """Tell the last line, which may lack its end."""
        rest, self._rest = self._rest, b""
        if rest:
            self._say(rest)

    def _say(self, line: bytes) -> None:
        self.tell(line.decode("utf-8", "replace").rstrip("\r"))
