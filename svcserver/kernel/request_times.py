"""How long requests took, by route and status: a histogram each, for METRICS_PORT."""

from __future__ import annotations

from bisect import bisect_left

from attrs import define, field

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MOST = 1_000  # series; what comes beyond is counted as of ``OTHER``
OTHER = "other"


@define
class Series:
    """Requests of one route and status: how many ended within each bound, one beyond, and all."""

    counts: list[int] = field(factory=lambda: [0] * (len(BOUNDS_S) + 1))
    seconds: float = 0.0

    def cumulated(self) -> list[tuple[str, int]]:
        """``le`` and how many took at most so long, as OpenMetrics wants it."""
        total, found = 0, []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found


@define
class RequestTimes:
    """All series of a process; a route is a name of ours, never what a stranger sent."""

    series: dict[tuple[str, int], Series] = field(factory=dict, init=False)

    def note(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered in ``seconds``."""
        found = self.series.get((route, status))
        if found is None:
            key = (route, status) if len(self.series) < MOST else (OTHER, status)
            found = self.series.setdefault(key, Series())
        found.counts[bisect_left(BOUNDS_S, seconds)] += 1
        found.seconds += seconds
