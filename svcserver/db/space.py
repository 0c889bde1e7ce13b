"""The reserve of free disk space, which SQLite must not use.

A full disk stops saves, the log, the check of a backup, and even the shell log-in of an operator
who wants to free space. So writes are refused before the disk is full.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from attrs import define, field

LOOK_S = 1.0


class LowDiskSpace(Exception):
    """The error when the disk has less free space than the reserve."""


def free_bytes(folder: Path) -> int:
    """Return how many bytes a non-root program can still write to the disk of ``folder``."""
    return shutil.disk_usage(folder).free


@define
class Reserve:
    """A check, at most once a second, that the disk has enough free space.

    ``bytes`` is the number of bytes that must be free; 0 means no check.
    """

    folder: Path
    bytes: int
    seconds: Callable[[], float]
    free: Callable[[Path], int] = free_bytes
    _looked: float | None = field(default=None, init=False)
    _short: str = field(default="", init=False)

    def check(self) -> None:
        """Raise LowDiskSpace if the disk has less free space than the reserve."""
        now = self.seconds()
        if self.bytes and (self._looked is None or now - self._looked >= LOOK_S):
            self._looked, self._short = now, self._check_space()
        if self._short:
            raise LowDiskSpace(self._short)

    def look_again(self) -> None:
        """Make the next call of ``check`` measure the free space again."""
        self._looked = None

    def _check_space(self) -> str:
        try:
            left = self.free(self.folder)
        except OSError:
            return ""  # the write itself will fail and give the reason
        if left >= self.bytes:
            return ""
        return f"the disk of {self.folder} has only {left >> 20} MB of free space"
