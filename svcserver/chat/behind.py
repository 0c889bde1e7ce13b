"""A client's frames that leave after those that others were sent before them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime


@define(eq=False)
class TwoTurns:
    """Calls of all connections that wait for two turns of the reactor, in the order of ``then``.

    A transport hands its bytes to the system when the reactor next polls, and the poller decides
    in which order. In the second turn from now that has happened for all that was sent until now,
    but to clients that read too slowly.
    """

    clock: IReactorTime
    _new: list[Callable[[], None]] = field(factory=list)
    _old: list[Callable[[], None]] = field(factory=list)  # of the turn before
    _next: IDelayedCall | None = None

    def then(self, call: Callable[[], None]) -> None:
        """Call it in the second turn from now."""
        self._new.append(call)
        if self._next is None:
            self._next = self.clock.callLater(0, self._turn)

    def stop(self) -> None:
        """Forget all calls: the chat stops."""
        self._new, self._old = [], []
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _turn(self) -> None:
        due, self._old, self._new = self._old, self._new, []
        self._next = self.clock.callLater(0, self._turn) if self._old else None
        for call in due:
            call()


@define(eq=False)
class Behind:
    """What one connection holds back: own lines, and whatever follows each of them.

    ``write`` gets a line with what has followed it two turns later.
    """

    turns: TwoTurns
    write: Callable[[bytes], None]
    size: int = 0  # bytes that wait
    _held: list[list[bytes]] = field(factory=list)

    def begin(self, frame: bytes) -> None:
        """Hold an own line."""
        self._held.append([frame])
        self.size += len(frame)
        self.turns.then(self._release)

    def add(self, frame: bytes) -> None:
        """Hold what follows the newest own line."""
        self._held[-1].append(frame)
        self.size += len(frame)

    def release_all(self) -> None:
        """Write all at once: the connection is closed in order."""
        while self._held:
            self._release()

    def drop(self) -> None:
        """Forget what waits: the connection is lost."""
        self.size = 0
        self._held.clear()

    def _release(self) -> None:
        if self._held:
            out = b"".join(self._held.pop(0))
            self.size -= len(out)
            self.write(out)
