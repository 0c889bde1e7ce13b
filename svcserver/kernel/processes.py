"""Facts about processes and the machine, from Linux's ``/proc``.

The start time distinguishes a process from a later one with the same pid.
"""

from pathlib import Path

PROCESSES = Path("/proc")
_START_FIELD = 19  # of those after the name, in clock ticks since the machine's start
_IDLE = (3, 4)  # the fields "idle" and "iowait" of the first line of /proc/stat


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


def sizes(file: Path = PROCESSES / "meminfo") -> dict[str, int]:
    """Return the sizes in kB in a file such as ``/proc/meminfo``; empty if it is unreadable."""
    try:
        rows = [line.split() for line in file.read_text("ascii", "replace").splitlines()]
    except OSError:
        return {}
    return {
        row[0].rstrip(":"): int(row[1])
        for row in rows
        if len(row) == 3 and row[1].isdecimal() and row[2] == "kB"
    }


def cpu_ticks(processes: Path = PROCESSES) -> tuple[int, int] | None:
    """Return the idle and the total CPU time since the machine's start, or None if unknown."""
    try:
        line = (processes / "stat").read_text("ascii").partition("\n")[0]
        ticks = [int(word) for word in line.split()[1:9]]
        return sum(ticks[at] for at in _IDLE), sum(ticks)
    except (OSError, ValueError, IndexError):
        return None
