"""The start times of processes, which distinguish a process from a later one with the same pid."""

from pathlib import Path

PROCESSES = Path("/proc")
_START_FIELD = 19  # of those after the name, in clock ticks since the machine's start


def started_at(pid: int, processes: Path = PROCESSES) -> int | None:
    """Return when a process started, in kernel ticks; None for a dead process or a zombie."""
    try:
        fields = (processes / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else int(fields[_START_FIELD])
    except (OSError, ValueError, IndexError):
        return None


def boot_id(processes: Path = PROCESSES) -> str:
    """Return the id of the machine's current boot, or "" if the system has none."""
    try:
        return (processes / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
