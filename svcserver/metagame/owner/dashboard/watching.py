"""Takes the health samples for the dashboard's charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svcserver.kernel.every import Every
from svcserver.metagame.owner.dashboard.history import EVERY_S, History
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.health.watching import memory_mb
from svcserver.metagame.play.presence.online import Online


def health_watch(
    clock: Any, history: History, health: Health, online: Online, now: Callable[[], float]
) -> Every:
    """The service that takes a sample every ``EVERY_S``; only with BACKEND_HEALTH=1."""

    def sample() -> None:
        at = now()
        players, rss_mb = online.count(at), memory_mb()["rss"]
        history.take(health, at, rss_mb=rss_mb, players=players)

    return Every(clock, EVERY_S, sample, "a sample for the dashboard")
