"""Takes a health sample every few seconds, for the charts of the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from svcserver.metagame.owner.dashboard.history import EVERY_S, History
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.health.watching import memory_mb
from svcserver.metagame.play.presence.online import Online

log = Logger()


@define(eq=False, slots=False)
class HealthWatch(Service):
    """Runs with BACKEND_HEALTH=1."""

    clock: Any
    history: History
    health: Health
    online: Online
    now: Callable[[], float]
    _loop: LoopingCall = field(init=False)

    def startService(self) -> None:
        Service.startService(self)
        self._loop = LoopingCall(self._sample)
        self._loop.clock = self.clock
        self._loop.start(EVERY_S, now=False).addErrback(
            lambda why: log.failure("the samples for the dashboard ended", why)
        )

    def _sample(self) -> None:
        now = self.now()
        players, rss_mb = self.online.count(now), memory_mb()["rss"]
        self.history.take(self.health, now, rss_mb=rss_mb, players=players)

    def stopService(self) -> None:
        Service.stopService(self)
        if self._loop.running:
            self._loop.stop()
