"""Prints the folder below which ``make test`` keeps what tests write: in memory, where it fits.

Nearly all of it is thrown away, but a database waits for the disk at each commit, and beside
something that writes much a disk may take seconds for it: longer than tests wait.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

MEMORY = "/dev/shm"  # of Linux: files that are kept in memory
ROOM = 4 << 30  # bytes that all workers together may fill, and as many again for their processes


def folder(
    environ: Mapping[str, str], look: Callable[[str], os.statvfs_result], available: int
) -> str:
    """``TMPDIR`` where somebody has set it; memory with room for files that can be run; the disk.

    ``look`` is ``os.statvfs``, ``available`` bytes of memory. Containers often have 64 MB there.
    """
    if "TMPDIR" in environ:
        return environ["TMPDIR"]
    try:
        view = look(MEMORY)
    except OSError:
        return tempfile.gettempdir()
    fits = view.f_bavail * view.f_frsize >= ROOM and available >= 2 * ROOM
    if fits and not view.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK):
        return MEMORY
    return tempfile.gettempdir()


def _available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    result = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return result[0] if result else 0


if __name__ == "__main__":
    print(folder(os.environ, os.statvfs, _available()))
