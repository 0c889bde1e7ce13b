"""What fills the health figures: an observer of the front door, and a timer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from svcserver.kernel.every import Every
from svcserver.kernel.rates import Windows
from svcserver.metagame.owner.health.rules import SAMPLE_S, LoopDelays, Requests
from svcserver.web.front import Done

READS, READS_S = 120, 60.0  # BackendHealth and DashboardAccounts together, per address
PROCESS = Path("/proc/self/status")


@frozen
class Counting:
    """An observer of the front door; rows marked ``quiet`` are not counted."""

    requests: Requests
    now: Callable[[], float]

    def __call__(self, done: Done) -> None:
        """Count one request."""
        if done.row is not None and done.row.quiet:
            return
        if done.aborted:
            self.requests.note_aborted(self.now())
        else:
            self.requests.note(done.status, done.seconds, self.now())


@define
class Lateness:
    """How late the reactor calls us, each time it does."""

    clock: Any
    delays: LoopDelays
    _last: float | None = field(default=None, init=False)

    def note(self) -> None:
        """We have been called."""
        now = self.clock.seconds()
        if self._last is not None:
            self.delays.note(now - self._last)
        self._last = now


def loop_watch(clock: Any, delays: LoopDelays) -> Every:
    """The part that measures every 20 ms how late the reactor is."""
    late = Lateness(clock, delays)
    return Every(clock, SAMPLE_S, late.note, "the watch over the event loop", at_once=True)


@frozen
class ReadLimit:
    """The costly reads of an address in a minute, one count for all routes that share it."""

    now: Callable[[], float]
    _reads: Windows = field(factory=lambda: Windows(READS, READS_S), init=False)

    def busy(self, address: str) -> float:
        """Seconds until another read may be made; 0 when it may be now, which counts it."""
        now = self.now()
        wait = self._reads.wait(address, now)
        if wait == 0:
            self._reads.note(address, now)
        return wait


def memory_mb() -> dict[str, float | None]:
    """Resident and allocated memory of this process; None where the system does not say."""
    try:
        lines = PROCESS.read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    kilobytes = {
        name: words.split()[0]
        for name, _, words in (one.partition(":") for one in lines)
        if name in ("VmRSS", "RssAnon")
    }
    return {
        "rss": _mb(kilobytes.get("VmRSS")),
        "heapUsed": _mb(kilobytes.get("RssAnon")),
    }


def _mb(kilobytes: str | None) -> float | None:
    return None if kilobytes is None else round(int(kilobytes) / 1024, 1)
