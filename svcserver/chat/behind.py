"""A client's frames that leave after those that others were sent before them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime


@define(eq=False)
class Behind:
    """The frames of one connection that wait for two turns of the reactor.

    A transport hands its bytes to the system when the reactor next polls, and the poller decides
    in which order. In the second turn from now that has happened for all that was sent until now,
    but to clients that read too slowly. ``write`` gets each frame then, in the order of ``add``.
    """

    clock: IReactorTime
    write: Callable[[bytes], None]
    size: int = 0  # bytes that wait
    _new: list[bytes] = field(factory=list)
    _old: list[bytes] = field(factory=list)  # of the turn before
    _next: IDelayedCall | None = None

    def __bool__(self) -> bool:
        """Whether any frame waits."""
        return self.size > 0

    def add(self, frame: bytes) -> None:
        """Hold a frame for two turns."""
        self._new.append(frame)
        self.size += len(frame)
        if self._next is None:
            self._next = self.clock.callLater(0, self._turn)

    def release(self) -> None:
        """Write what waits at once: the connection is closed in order."""
        self._old += self._new
        self._new = []
        self._out()
        self.stop()

    def stop(self) -> None:
        """Forget what waits: the connection is lost."""
        self._new, self._old, self.size = [], [], 0
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None

    def _turn(self) -> None:
        self._next = None
        self._out()
        self._old, self._new = self._new, []
        if self._old:
            self._next = self.clock.callLater(0, self._turn)

    def _out(self) -> None:
        old, self._old = self._old, []
        for frame in old:
            self.size -= len(frame)
            self.write(frame)
