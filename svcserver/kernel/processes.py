"""What tells a process from a later one with the same id."""

from __future__ import annotations

from pathlib import Path

PROCESSES = Path("/proc")
_START_FIELD = 19  # of those after the name, in clock ticks since the machine's start


def started_at(pid: int, processes: Path = PROCESSES) -> int | None:
    """When a process started, in ticks of the kernel; None when it does not run, as a zombie."""
    try:
        fields = (processes / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else int(fields[_START_FIELD])
    except (OSError, ValueError, IndexError):
        return None


def boot_id(processes: Path = PROCESSES) -> str:
    """Return what tells this start of the machine from all others; empty where nothing does."""
    try:
        return (processes / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
