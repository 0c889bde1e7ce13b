"""A reserve of free disk space that writes to SQLite leave untouched.

A disk that is really full stops more than saves: the log, the check of a backup, even the
shell log-in of the operator who should make room. So writes are refused before that.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from attrs import define, field

LOOK_S = 1.0


class NoRoom(Exception):
    """An error: the disk has less room than the reserve."""


def free_bytes(folder: Path) -> int:
    """Return the bytes that a program without root rights may write to the disk of ``folder``."""
    return shutil.disk_usage(folder).free


@define
class Reserve:
    """A check that ``bytes`` are free, at most once a second; with 0 never."""

    folder: Path
    bytes: int
    seconds: Callable[[], float]
    free: Callable[[Path], int] = free_bytes
    _looked: float | None = field(default=None, init=False)
    _short: str = field(default="", init=False)

    def check(self) -> None:
        """Raise NoRoom while less than the reserve is free on the disk."""
        now = self.seconds()
        if self.bytes and (self._looked is None or now - self._looked >= LOOK_S):
            self._looked, self._short = now, self._look()
        if self._short:
            raise NoRoom(self._short)

    def look_again(self) -> None:
        """Check anew at the next call of ``check``."""
        self._looked = None

    def _look(self) -> str:
        try:
            left = self.free(self.folder)
        except OSError:
            return ""  # the write itself will fail, with the reason
        if left >= self.bytes:
            return ""
        return f"the disk of {self.folder} has {left >> 20} MB left"
