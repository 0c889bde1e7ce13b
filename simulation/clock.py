"""The simulation's time: one queue of timers for all processes; waiting takes no real time."""

from __future__ import annotations

import gc
import heapq
import random
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.error import AlreadyCalled, AlreadyCancelled
from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from svcserver.kernel.buggify import rare_things
from svcserver.kernel.system import System, owned

START = 1_790_000_000.0  # epoch seconds of the beginning: some day in September 2026


class Buried(Protocol):
    """An object that belonged to a process which has died."""

    def release(self) -> None:
        """Release this object's references; nobody uses the object any more."""


@implementer(IDelayedCall)
class Timer:
    """A delayed call, as ``callLater`` returns it (IDelayedCall)."""

    __slots__ = ("_run", "args", "at", "kw", "process", "queued_at", "state", "world")

    def __init__(
        self,
        world: World,
        at: float,
        run: Callable[..., Any],
        process: Any = None,
        args: tuple[Any, ...] = (),
        kw: dict[str, Any] | None = None,
    ) -> None:
        self.world, self.at, self.queued_at, self._run = world, at, at, run
        self.process, self.args, self.kw = process, args, kw or {}
        self.state = ""  # then "called" or "cancelled"

    def active(self) -> bool:
        """Return whether the call is still pending."""
        return not self.state

    def getTime(self) -> float:
        """Return the time of the call, in epoch seconds."""
        return self.at

    def cancel(self) -> None:
        self._check()
        self.state = "cancelled"

    def delay(self, secondsLater: float) -> None:
        self._check()
        self._move(self.at + secondsLater)

    def reset(self, secondsFromNow: float) -> None:
        self._check()
        self._move(self.world.now + secondsFromNow)

    def release(self) -> None:
        """Replace the function and drop the arguments, so that the timer keeps nothing alive."""
        self._run, self.process, self.args, self.kw = _nothing, None, (), {}

    def _check(self) -> None:
        if self.state:
            raise AlreadyCalled if self.state == "called" else AlreadyCancelled

    def _move(self, at: float) -> None:
        self.at = at
        if at < self.queued_at:
            self.world.queue(self)

    def run(self) -> None:
        """Call the function unless the process has died."""
        process = self.process
        if process is not None and process.frozen_until > self.world.now:
            self._move(process.frozen_until)
            self.world.queue(self)
            return
        self.state = "called"
        if process is None:
            self._run(*self.args, **self.kw)
        elif not process.dead:
            process.guard(self._run, *self.args, **self.kw)
        else:
            self.world.buried.append(self)


def _nothing() -> None:
    """Do nothing; released timers call this function."""


@define(eq=False)
class World:
    """The simulated time, random numbers and event order; equal seeds give equal runs."""

    seed: int
    now: float = START
    events: int = 0  # timers called
    # parts of dead processes: releasing them would run their coroutines to the end
    buried: list[Buried] = field(factory=list)
    chance: random.Random = field(init=False)  # ids, secrets: what the code under test draws
    weather: random.Random = field(init=False)  # latency and faults
    burying: bool = field(default=False, init=False)
    _queue: list[tuple[float, int, Timer]] = field(factory=list, init=False)
    _number: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.chance = random.Random(f"chance {self.seed}")  # noqa: S311 - no secrets here
        self.weather = random.Random(f"weather {self.seed}")  # noqa: S311

    def system(self) -> System:
        """Return the simulated clocks and random numbers that replace those of the machine."""
        draw = self.chance
        return System(
            epoch=self.seconds,
            monotonic=self.seconds,
            elapsed=self.seconds,
            random_hex=lambda count: f"{draw.getrandbits(8 * count):0{2 * count}x}",
            uuid4=lambda: uuid.UUID(int=draw.getrandbits(128), version=4),
            below=draw.randrange,
            fraction=draw.random,
            generator=lambda: random.Random(draw.getrandbits(64)),  # noqa: S311
        )

    def seconds(self) -> float:
        """Return the simulated time in epoch seconds, for both clocks and timers."""
        return self.now

    def later(self, seconds: float, run: Callable[[], Any]) -> Timer:
        """Call ``run`` after ``seconds``."""
        return self.at(self.now + max(0.0, seconds), run)

    def at(self, when: float, run: Callable[[], Any]) -> Timer:
        """Call ``run`` at ``when``, in epoch seconds of the simulation."""
        timer = Timer(self, when, run)
        self.queue(timer)
        return timer

    def reserve(self, count: int) -> int:
        """Reserve ``count`` queue numbers, to be passed to ``at_place``; return the first number.

        A call with a reserved number runs before all calls for the same time that are queued later.
        """
        self._number += count
        return self._number - count + 1

    def at_place(self, when: float, number: int, run: Callable[[], Any]) -> None:
        """Call ``run`` at ``when``, with a queue number from ``reserve``."""
        heapq.heappush(self._queue, (when, number, Timer(self, when, run)))

    def queue(self, timer: Timer) -> None:
        """Queue a timer; timers that are due at the same time run in queue order."""
        if self.burying:
            return
        timer.queued_at = timer.at
        self._number += 1
        heapq.heappush(self._queue, (timer.at, self._number, timer))

    def bury(self) -> None:
        """Release the objects of dead processes; Python then closes these processes' coroutines.

        The clean-up code in the coroutines gets separate random numbers and cannot queue timers, so
        it does not affect the run. Its log is ignored.
        """
        weather, self.weather = self.weather, random.Random(0)  # noqa: S311
        self.burying = True
        try:
            with owned(World(self.seed).system()), rare_things(lambda _: False):
                timers = [timer for _, _, timer in self._queue]
                self.buried += [timer for timer in timers if timer.process and timer.process.dead]
                for entry in self.buried:
                    entry.release()
                self.buried.clear()
                gc.collect()
        finally:
            self.weather, self.burying = weather, False

    def run_until(self, end: float) -> None:
        """Run all timers that are due at ``end`` or earlier."""
        queue = self._queue
        while queue and queue[0][0] <= end:
            at, _, timer = heapq.heappop(queue)
            if timer.state:
                continue
            if timer.at != at:
                if timer.queued_at == at:
                    self.queue(timer)
                continue
            self.now = at
            self.events += 1
            timer.run()
        self.now = max(self.now, end)
