"""Health over time: a sample every few seconds, kept for an hour."""

from __future__ import annotations

from collections import deque
from typing import TypedDict

from attrs import define, evolve, field

from svcserver.metagame.owner.health.rules import Counts, Health, upper_bound

EVERY_S = 5.0
KEPT = 720  # samples: an hour


class HealthSample(TypedDict):
    """The health since the previous sample; event-loop delays are those of the last minute."""

    at: float
    seconds: float
    requestsPerSecond: float
    latencyP50UpperMs: int | str | None
    latencyP95UpperMs: int | str | None
    clientErrors: int
    serverErrors: int
    aborted: int
    loopP50Ms: float | None
    loopP95Ms: float | None
    loopMaxMs: float | None
    rssMB: float | None
    players: int


@define
class History:
    """The last ``KEPT`` samples."""

    samples: deque[HealthSample] = field(factory=lambda: deque(maxlen=KEPT), init=False)
    _before: Counts = field(factory=Counts, init=False)
    _at: float | None = field(default=None, init=False)

    def take(self, health: Health, now: float, *, rss_mb: float | None, players: int) -> None:
        """Add a sample at ``now`` (epoch seconds)."""
        before, seen = self._before, health.requests.since_start
        seconds = EVERY_S if self._at is None else max(0.001, now - self._at)
        took = [a - b for a, b in zip(seen.latencies, before.latencies, strict=True)]
        loop = health.loop.report()
        self.samples.append(
            {
                "at": now,
                "seconds": round(seconds, 3),
                "requestsPerSecond": round((seen.completed - before.completed) / seconds, 3),
                "latencyP50UpperMs": upper_bound(took, 0.50),
                "latencyP95UpperMs": upper_bound(took, 0.95),
                "clientErrors": seen.client_errors - before.client_errors,
                "serverErrors": seen.server_errors - before.server_errors,
                "aborted": seen.aborted - before.aborted,
                "loopP50Ms": None if loop is None else loop["p50Ms"],
                "loopP95Ms": None if loop is None else loop["p95Ms"],
                "loopMaxMs": None if loop is None else loop["maxMs"],
                "rssMB": rss_mb,
                "players": players,
            }
        )
        self._before, self._at = evolve(seen, latencies=list(seen.latencies)), now

    def after(self, at: float) -> list[HealthSample]:
        """The samples taken later than ``at`` (epoch seconds), oldest first."""
        return [one for one in self.samples if one["at"] > at]
