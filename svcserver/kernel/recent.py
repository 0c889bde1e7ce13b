"""The last lines of all services of a host, in a file of its folder with a bound.

``svc-stack`` writes it and the dashboard reads it: each service knows only its own lines.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import define, field

from svcserver.kernel.redaction import redact

RECENT = "recent.log"
MOST = 1024 * 1024  # bytes; then the file gives way to a new one, and stays as ``recent.log.1``
LONGEST = 2_000  # characters of a line
FIRST = 128 * 1024  # bytes that a reader begins with
PIECE = 256 * 1024  # bytes read at once


@define
class Bounded:
    """A file of lines with a bound; what was before them stays in ``NAME.1``, up to as much.

    Where the disk refuses, lines are left out.
    """

    file: Path
    most: int = MOST  # bytes
    _size: int | None = field(default=None, init=False)

    def keep(self, text: str) -> None:
        """Append ``text``, whole lines; begins a new file where this one is full. Never raises."""
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
            self._size = None  # a full disk, or a folder that is not ours: no reason to stop


@define
class Recent:
    """Passes lines on to ``out``, which has ``write`` and ``flush``, and keeps the last."""

    kept: Bounded
    out: Any

    def write(self, text: str, /) -> object:
        self.kept.keep(text)
        return self.out.write(text)

    def flush(self) -> object:
        return self.out.flush()


@define
class Follower:
    """Reads what is added to the file, a new one in its place too."""

    file: Path
    since: float = 0.0  # one that was last written earlier (epoch seconds) is of no stack that runs
    _at: int = field(default=-1, init=False)
    _of: int = field(default=0, init=False)  # the inode
    _rest: bytes = field(default=b"", init=False)

    def new(self) -> list[str] | None:
        """The lines since the last call, without secrets; None where no stack writes one."""
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
                found = file.read(PIECE)
        except OSError:
            return None
        self._at += len(found)
        *whole, self._rest = (self._rest + found).split(b"\n")
        return [redact(one.decode("utf-8", "replace")[:LONGEST]) for one in whole if one]
