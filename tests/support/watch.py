"""A stopwatch for time limits on a machine that may be busy with other work."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType

from attrs import define, field

NAP_S = 0.05


@define(eq=False)
class Watch:
    """A stopwatch; ``seconds`` is the time in the ``with`` block that the machine gave the test.

    A thread sleeps repeatedly. If a sleep takes more than twice its length, the excess is time that
    the machine spent on other processes, and is not counted. On an idle machine the result equals
    wall-clock time; the result is never more.
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
