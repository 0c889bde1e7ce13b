"""The command line and environment that ``/proc`` shows of a forked process.

A fork shows what its parent was started with, so the process that forks (``prestarted.py``) is
started with room to spare, and each fork writes its own there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOM = "-" * 4096  # a word of this length, and a variable
FIRST_PLACE = 45  # of four addresses in /proc/PID/stat after the name (proc(5), 48 to 51)


def pids() -> list[int]:
    """All that run."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def words_of(pid: int) -> list[str]:
    """The words of a process; none where it has ended."""
    return _read(pid, "cmdline")


def environ_of(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty where it has ended."""
    return dict(entry.split("=", 1) for entry in _read(pid, "environ") if "=" in entry)


def show(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Let ``/proc`` say so of this process, whose environment is in use no more."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, end, first_variable, last_end = map(int, stat[FIRST_PLACE : FIRST_PLACE + 4])
    _write(first, end, words)
    _write(first_variable, last_end, [f"{name}={item}" for name, item in environ.items()])


def _write(first: int, end: int, strings: Sequence[str]) -> None:
    room = end - first
    data = "\0".join(strings).encode()[: room - 1]
    ctypes.memmove(first, data.ljust(room, b"\0"), room)


def _read(pid: int, name: str) -> list[str]:
    try:
        data = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return []
    return data.rstrip(b"\0").decode(errors="replace").split("\0")
