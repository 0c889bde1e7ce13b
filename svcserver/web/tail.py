"""The last lines of a service's log, kept for the owner."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from svcserver.kernel.redaction import redact
from svcserver.web.logwriter import Out

KEPT = 500  # lines
LONGEST = 2_000  # characters of a line


@define
class LogTail:
    """Passes on what is written and remembers its last lines, numbered from 1 since the start.

    Secrets never reach the log; what has the shape of one is replaced here once more,
    because these lines leave the machine's own files.
    """

    out: Out | None = None
    count: int = 0  # lines ever written
    _lines: deque[str] = field(factory=lambda: deque(maxlen=KEPT), init=False)

    def write(self, text: str, /) -> object:
        for line in text.splitlines():
            self._lines.append(line[:LONGEST])
            self.count += 1
        return None if self.out is None else self.out.write(text)

    def flush(self) -> object:
        return None if self.out is None else self.out.flush()

    def after(self, number: int) -> list[str]:
        """The kept lines after line ``number``, the oldest first."""
        new = min(max(0, self.count - number), len(self._lines))
        return [redact(line) for line in list(self._lines)[len(self._lines) - new :]]
