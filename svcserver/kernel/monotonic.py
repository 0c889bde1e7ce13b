"""The time of day as a service should see it, and its timers: they never jump.

When somebody sets the machine's clock, or a correction comes over the network, invites,
queues and limits must neither all end at once nor stand still for an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from attrs import define, field

SLEW = 0.1  # of the time that passes: an hour's jump is made good in ten


@define
class MonotonicClock:
    """Epoch seconds that go on evenly and follow the machine's clock by and by.

    Asked by every thread: transactions take their time where they run.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    _said: float = field(init=False)
    _at: float = field(init=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._said, self._at = self.wall(), self.monotonic()

    def now(self) -> float:
        """Epoch seconds; never less than before."""
        with self._lock:
            at = self.monotonic()
            passed = at - self._at
            off = self.wall() - (self._said + passed)
            most = passed * SLEW
            self._said += passed + min(max(off, -most), most)
            self._at = at
            return self._said


def monotonic_reactor() -> Any:
    """The reactor, with timers that nobody's clock moves.

    Twisted's go by the time of day: set back by an hour, the machine would stop every
    timer for an hour. So its ``seconds()`` are no epoch seconds here. To be called
    before anything is timed; importing the reactor installs it.
    """
    from twisted.internet import reactor

    timed: Any = reactor
    timed.seconds = time.monotonic
    return timed
