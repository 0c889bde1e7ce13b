"""The last log lines of all services of a host, in a size-limited file in the host's folder.

Each service knows only its own lines. So ``svc-stack`` writes the file, and the dashboard reads it.
"""

import os
from pathlib import Path
from typing import Any

from attrs import define, field

from svcserver.kernel.redaction import redact

RECENT = "recent.log"
MOST = 1024 * 1024  # bytes; then the file becomes ``recent.log.1`` and a new one begins
LONGEST = 2_000  # characters of a line
FIRST = 128 * 1024  # a new reader begins this many bytes before the end
PIECE = 256 * 1024  # bytes read at once


@define
class Bounded:
    """A file of lines with a size limit; a full file is renamed to ``NAME.1``.

    Lines that cannot be written are dropped.
    """

    file: Path
    most: int = MOST  # bytes
    _size: int | None = field(default=None, init=False)

    def keep(self, text: str) -> None:
        """Append whole lines; start a new file if the current one is full. Never raises."""
        try:
            if self._size is None:
                self._size = self.file.stat().st_size if self.file.exists() else 0
            if self._size > self.most:
                self.file.replace(self.file.with_name(self.file.name + ".1"))
                self._size = 0
            handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                self._size += os.write(handle, text.encode("utf-8", "replace"))
            finally:
                os.close(handle)
        except OSError:
            self._size = None  # losing log lines is better than stopping


@define
class Recent:
    """An output stream that passes lines to ``out``, and stores the last lines in ``file``."""

    file: Bounded
    out: Any

    def write(self, text: str, /) -> object:
        self.file.keep(text)
        return self.out.write(text)

    def flush(self) -> object:
        return self.out.flush()


@define
class Follower:
    """A reader of the file's new lines; it also notices when a new file replaces the old one."""

    file: Path
    since: float = 0.0  # epoch seconds; if the file is older, no stack is running
    _at: int = field(default=-1, init=False)
    _of: int = field(default=0, init=False)  # the inode
    _rest: bytes = field(default=b"", init=False)

    def new(self) -> list[str] | None:
        """Return the lines since the last call, without secrets; None if no stack is running."""
        try:
            with self.file.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_mtime < self.since:
                    return None
                if self._at < 0:
                    self._at = max(0, about.st_size - FIRST)
                elif about.st_ino != self._of or about.st_size < self._at:
                    self._at, self._rest = 0, b""
                self._of = about.st_ino
                file.seek(self._at)
                data = file.read(PIECE)
        except OSError:
            return None
        self._at += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [redact(line.decode("utf-8", "replace")[:LONGEST]) for line in whole if line]
