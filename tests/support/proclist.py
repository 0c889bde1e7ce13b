"""The command line and environment that ``/proc`` shows for a forked process.

A fork shows the command line of its parent. The forking process (``prestarted.py``) is therefore
started with unused memory behind its command line, which each fork overwrites with its own command
line.
"""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOM = "-" * 4096  # a command-line word of this length, and a variable
FIRST_PLACE = 45  # of four addresses in /proc/PID/stat after the name (proc(5), 48 to 51)


def pids() -> list[int]:
    """Return the pids of all running processes."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def words_of(pid: int) -> list[str]:
    """Return the command line of a process as a list; empty if the process has ended."""
    return _read(pid, "cmdline")


def environ_of(pid: int) -> dict[str, str]:
    """Return the environment a process was started with; empty if the process has ended."""
    return dict(entry.split("=", 1) for entry in _read(pid, "environ") if "=" in entry)


def show(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Make ``/proc`` show these values for this process, overwriting its unused environment."""
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
