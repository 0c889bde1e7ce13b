"""The memory use of this process."""

from svcserver.kernel.processes import PROCESSES, sizes


def memory_mb() -> dict[str, float | None]:
    """Return this process's resident and heap memory in MiB, each None if unknown."""
    kilobytes = sizes(PROCESSES / "self/status")
    return {"rss": _mb(kilobytes.get("VmRSS")), "heapUsed": _mb(kilobytes.get("RssAnon"))}


def _mb(kilobytes: int | None) -> float | None:
    return None if kilobytes is None else round(kilobytes / 1024, 1)
