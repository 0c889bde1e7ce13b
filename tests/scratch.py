"""Print the folder for the temporary files of ``make test``: in memory if there is room.

Most of these files are thrown away. A database, however, waits for the disk at each commit, and on
a busy disk this can take seconds, which is longer than tests wait.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

MEMORY = "/dev/shm"  # Linux keeps these files in memory
ROOM = 4 << 30  # bytes for the files of all workers; their processes need as much again


def folder(
    environ: Mapping[str, str], look: Callable[[str], os.statvfs_result], available: int
) -> str:
    """Return ``TMPDIR`` if it is set, else a folder in memory if possible, else a folder on disk.

    The folder in memory must have enough room and allow programs to be executed; in containers it
    often has only 64 MB. ``look`` is ``os.statvfs``; ``available`` is the available memory in
    bytes.
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
