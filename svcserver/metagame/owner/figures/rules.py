"""The lengths of the time spans that figures cover, and the time for which figures are kept."""

import math
from enum import StrEnum

from attrs import define, field, frozen
from cachetools import FIFOCache

from svcserver.metagame.owner.health.rules import BOUNDS_MS, Counts, LoopFigures

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
# retention by span length: 1,500 minutes, 192 hours and 366 days, about 2,060 rows
KEPT_S = {MINUTE_S: 25 * HOUR_S, HOUR_S: 8 * DAY_S, DAY_S: 366 * DAY_S}
MOST_WAITING = 10  # minutes kept in memory while the database is slow


class Range(StrEnum):
    """A period for which the dashboard shows figures."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    EIGHT_WEEKS = "weeks"

    @property
    def seconds(self) -> int:
        return {"hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S, "weeks": 56 * DAY_S}[self.value]

    @property
    def step_s(self) -> int:
        """Return the length, in seconds, of the spans into which the period is divided."""
        return {"hour": MINUTE_S, "day": MINUTE_S, "week": HOUR_S, "weeks": DAY_S}[self.value]


@define
class FigureSpan:
    """The figures of a span of time.

    ``players_sum`` divided by ``samples`` is the average number of players online. Event-loop and
    memory values are the highest samples, or 0 without samples.
    """

    counts: Counts = field(factory=Counts)
    samples: int = 0
    players_sum: int = 0
    players_most: int = 0
    loop_p95_ms: float = 0.0
    loop_longest_ms: float = 0.0
    rss_mb: float = 0.0

    def note(
        self, counts: Counts, loop: LoopFigures | None, rss_mb: float | None, players: int
    ) -> None:
        self.counts.add(counts)
        self.samples += 1
        self.players_sum += players
        self.players_most = max(self.players_most, players)
        self.rss_mb = max(self.rss_mb, rss_mb or 0.0)
        if loop is not None:
            self.loop_p95_ms = max(self.loop_p95_ms, loop.p95)
            self.loop_longest_ms = max(self.loop_longest_ms, loop.longest)


@frozen
class StoredSpan:
    """A stored span that begins at ``at`` (epoch seconds) and lasts ``step_s`` seconds."""

    step_s: int
    at: int
    span: FigureSpan


@define
class Gathering:
    """The figures that this process has collected but not stored yet, minute by minute."""

    _minutes: FIFOCache[int, FigureSpan] = field(
        factory=lambda: FIFOCache(MOST_WAITING), init=False
    )

    def note(
        self,
        at: float,
        counts: Counts,
        loop: LoopFigures | None,
        rss_mb: float | None,
        players: int,
    ) -> None:
        """Add a sample to the figures of the minute that contains ``at``."""
        minute = start(at, MINUTE_S)
        if minute not in self._minutes:
            self._minutes[minute] = FigureSpan()
        self._minutes[minute].note(counts, loop, rss_mb, players)

    def taken(self) -> list[StoredSpan]:
        """Remove and return the collected figures, as table rows.

        Each minute has three rows: for the minute, for its hour and for its day.
        """
        minutes, self._minutes = self._minutes, FIFOCache(MOST_WAITING)
        return [
            StoredSpan(step, start(minute, step), span)
            for minute, span in minutes.items()
            for step in KEPT_S
        ]


def start(at: float, step_s: int) -> int:
    """Return the start of the span that contains ``at``."""
    return math.floor(at / step_s) * step_s


def columns() -> list[str]:
    """Return the column names of the latency counts, from the lowest latency to the highest."""
    return [*(f"within_{bound}_ms" for bound in BOUNDS_MS), "beyond"]
