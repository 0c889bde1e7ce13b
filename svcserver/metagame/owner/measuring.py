"""The services that measure a running metagame, as its settings want them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen
from twisted.application.service import IService

from svcserver.kernel.counters import Counters
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.dashboard.watching import health_watch
from svcserver.metagame.owner.health.figures import figures
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.health.watching import loop_watch
from svcserver.metagame.play.presence.store import Online
from svcserver.metagame.settings import Settings
from svcserver.web.metrics import metrics


@frozen
class Measuring:
    """What is measured, and by which clock (epoch seconds)."""

    settings: Settings
    health: Health
    shown: DashboardState
    online: Online
    counters: Counters
    now: Callable[[], float]

    def parts(self, reactor: Any) -> Iterator[IService]:
        """The listener of METRICS_PORT, and with BACKEND_HEALTH=1 the watches."""
        port, on = self.settings.metrics_port, self.settings.backend_health
        if port:
            known = figures(self.online, self.health if on else None)
            yield metrics(reactor, "metagame", port, known, self.counters)
        if on:
            yield loop_watch(reactor, self.health.loop)
            yield health_watch(reactor, self.shown.health, self.health, self.online, self.now)
