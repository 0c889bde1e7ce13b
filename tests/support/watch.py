"""A watch for what must happen soon, on a machine that may be with others just then."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType

from attrs import define, field

NAP_S = 0.01


@define(eq=False)
class Watch:
    """``seconds`` that have passed since it was entered and that the machine had for us.

    A thread naps all the time; what a nap lasts beyond twice its length the machine spent on
    others, and would have been missing to what is measured as well. On a machine with nothing else
    to do this is the time of the clock; it is never more.
    """

    clock: Callable[[], float] = time.monotonic
    seconds: float = field(default=0.0, init=False)
    _over: Event = field(factory=Event, init=False)
    _thread: Thread = field(init=False)

    def __enter__(self) -> Watch:
        self._thread = Thread(target=self._nap, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _nap(self) -> None:
        last = self.clock()
        while not self._over.wait(NAP_S):
            now = self.clock()
            self.seconds += min(now - last, 2 * NAP_S)
            last = now
