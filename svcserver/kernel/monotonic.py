"""Clocks that never jump: one for stored times, in epoch seconds, and one for timers.

A change of the machine's clock must not make all invites and queues expire at once, and must not
stop timers for an hour.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

from attrs import define, field

from svcserver.kernel.log_context import remove_log_context
from svcserver.kernel.system import system

SLEW = 0.1  # fraction of elapsed time: an hour's jump takes ten hours to correct


@define
class MonotonicClock:
    """A clock whose epoch seconds never decrease; it slowly follows changes of the machine's time.

    The clock is thread-safe, because transactions read it in their own threads.
    """

    wall: Callable[[], float] = field(factory=lambda: system().epoch)
    monotonic: Callable[[], float] = field(factory=lambda: system().monotonic)
    _time: float = field(init=False)
    _at: float = field(init=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._time, self._at = self.wall(), self.monotonic()

    def read_epoch(self) -> float:
        """Return epoch seconds, never less than at the previous call."""
        with self._lock:
            at = self.monotonic()
            passed = at - self._at
            self._at = at
            time = self._time + passed
            off, most = self.wall() - time, passed * SLEW
            if off > most:  # no min and max, for speed: a request calls this several times
                off = most
            elif off < -most:
                off = -most
            self._time = time = time + off
            return time


def monotonic_reactor() -> Any:
    """Return the reactor, with timers that a change of the machine's clock does not affect.

    This function also calls ``kernel.log_context.remove_log_context``.

    Twisted's timers use ``time.time``: a clock set back by an hour would stop every timer for an
    hour. After this call, the reactor's ``seconds()`` are not epoch seconds. Call this function
    before the first timer is set. It installs Twisted's default reactor if there is no reactor yet.
    """
    from twisted.internet import reactor

    timed: Any = reactor
    timed.seconds = system().monotonic
    remove_log_context()
    return timed
