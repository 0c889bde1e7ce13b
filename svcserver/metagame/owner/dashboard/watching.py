"""Takes the health samples for the dashboard's charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from svcserver.kernel.every import Every
from svcserver.metagame.owner.dashboard.history import EVERY_S, History
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.memory import memory_mb
from svcserver.metagame.play.presence.feature import Online


def health_watch(
    clock: Any, history: History, health: Health, online: Online, wall_clock: Callable[[], float]
) -> Every:
    """The service that takes a sample every ``EVERY_S`` and when it stops."""

    def take(players: int) -> None:
        history.take(health, wall_clock(), rss_mb=memory_mb()["rss"], players=players)

    def sample() -> Deferred[None]:
        return online.count().addCallback(take)

    return Every(clock, EVERY_S, sample, "a sample for the dashboard", at_end=True)
