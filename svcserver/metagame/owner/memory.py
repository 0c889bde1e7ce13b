"""The memory use of this process."""

from pathlib import Path

PROCESS = Path("/proc/self/status")


def memory_mb() -> dict[str, float | None]:
    """Return this process's resident and heap memory in MiB, each None if unknown."""
    try:
        lines = PROCESS.read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    kilobytes = {
        name: words.split()[0]
        for name, _, words in (line.partition(":") for line in lines)
        if name in ("VmRSS", "RssAnon")
    }
    return {
        "rss": _mb(kilobytes.get("VmRSS")),
        "heapUsed": _mb(kilobytes.get("RssAnon")),
    }


def _mb(kilobytes: str | None) -> float | None:
    return None if kilobytes is None else round(int(kilobytes) / 1024, 1)
