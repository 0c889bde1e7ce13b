"""Collects the health figures: an observer of the front door, and a timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from svcserver.kernel.every import Every
from svcserver.metagame.owner.health.rules import SAMPLE_S, LoopDelays, Requests
from svcserver.web.front import FinishedRequest


@frozen
class Counting:
    """An observer that counts requests, except those of rows marked ``quiet``."""

    requests: Requests
    wall_clock: Callable[[], float]

    def __call__(self, done: FinishedRequest) -> None:
        if done.row is not None and done.row.quiet:
            return
        if done.aborted:
            self.requests.note_aborted(self.wall_clock())
        else:
            self.requests.note(done.status, done.seconds, self.wall_clock())


@define
class Lateness:
    """Measures the intervals between the reactor's calls of ``note``."""

    clock: Any
    delays: LoopDelays
    _last: float | None = field(default=None, init=False)

    def note(self) -> None:
        now = self.clock.seconds()
        if self._last is not None:
            self.delays.note(now - self._last)
        self._last = now


def loop_watch(clock: Any, delays: LoopDelays) -> Every:
    """The service that measures the event loop's delays every 20 ms."""
    late = Lateness(clock, delays)
    return Every(clock, SAMPLE_S, late.note, "measuring the event loop", at_once=True)
