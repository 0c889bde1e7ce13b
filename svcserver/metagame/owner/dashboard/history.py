"""Health over time: a sample every few seconds, kept for an hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred

from svcserver.kernel.every import Every
from svcserver.kernel.signals import Signal
from svcserver.metagame.owner.health.rules import Counts, Health, LoopFigures
from svcserver.metagame.owner.memory import memory_mb
from svcserver.metagame.play.presence.feature import Online

EVERY_S = 5.0
MAX_SAMPLES = 720  # samples: an hour


@frozen
class HealthSample:
    """A health sample, taken at ``at``.

    ``counts`` covers the ``seconds`` before the sample. ``loop`` has the event-loop delays of the
    last minute.
    """

    at: float
    seconds: float
    counts: Counts
    loop: LoopFigures | None
    rss_mb: float | None
    players: int


@define
class HealthHistory:
    """The last ``MAX_SAMPLES`` health samples, oldest first."""

    taken: Signal[HealthSample] = field(factory=Signal, init=False)
    samples: deque[HealthSample] = field(factory=lambda: deque(maxlen=MAX_SAMPLES), init=False)
    _before: Counts = field(factory=Counts, init=False)
    _at: float | None = field(default=None, init=False)

    def take(self, health: Health, now: float, *, rss_mb: float | None, players: int) -> None:
        """Add a sample at ``now`` (epoch seconds)."""
        before, current = self._before, health.requests.since_start
        seconds = EVERY_S if self._at is None else max(0.001, now - self._at)
        counts, loop = current.since(before), health.loop.report()
        sample = HealthSample(now, seconds, counts, loop, rss_mb, players)
        self.samples.append(sample)
        self._before, self._at = evolve(current, latencies=list(current.latencies)), now
        self.taken.send(sample)

    def after(self, at: float) -> list[HealthSample]:
        """Return the samples that were taken after ``at`` (epoch seconds), oldest first."""
        return [sample for sample in self.samples if sample.at > at]


def health_watch(
    clock: Any,
    history: HealthHistory,
    health: Health,
    online: Online,
    wall_clock: Callable[[], float],
) -> Every:
    """Return the service that samples every ``EVERY_S`` seconds, and once more when it stops."""

    def take(players: int) -> None:
        history.take(health, wall_clock(), rss_mb=memory_mb()["rss"], players=players)

    def sample() -> Deferred[None]:
        return online.count().addCallback(take)

    return Every(clock, EVERY_S, sample, "taking a sample for the dashboard", at_end=True)
