"""The answers to other processes that ask for our sessions, in pieces.

A piece is published when the one before it was received back, so that only one is on its way. Each
is correct at its own place in the order of news.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.chat.events import PIECE, Here
from svcserver.chat.leases import ALIVE_S

log = Logger()

ALL = ""  # instead of the name of one process


@define(eq=False)
class Answers:
    """One answer at a time, for all who ask.

    ``piece(since, readers)`` returns its next part; ``publish`` fires once that is received back,
    or with False if it cannot be published. ``seconds`` is the clock of timers.
    """

    seconds: Callable[[], float]
    publish: Callable[[Here], Deferred[bool]]
    piece: Callable[[int, tuple[str, ...]], Here]
    _askers: dict[str, None] = field(factory=dict, init=False)
    _running: bool = field(default=False, init=False)
    _next_at: float = field(default=0.0, init=False)

    def answer(self, asker: str) -> None:
        """Answer now, or together with all that ask before the next answer may start."""
        self._askers[asker] = None
        self.check()
        if asker in self._askers and asker != ALL:
            wait = self.piece(0, (asker,)).to_come()
            Deferred.fromCoroutine(self._sent(wait))

    def check(self) -> None:
        """Start the next answer if it is due; called about once a second."""
        if self._askers and not self._running and self.seconds() >= self._next_at:
            readers = () if ALL in self._askers else tuple(self._askers)
            self._askers.clear()
            self._running = True
            Deferred.fromCoroutine(self._run(readers))

    async def _run(self, readers: tuple[str, ...]) -> None:
        began, count, since = self.seconds(), 0, 0
        try:
            while True:
                here = self.piece(since, readers)
                count += len(here.seats)
                if not await self._sent(here) or here.until is None:
                    return
                since = here.until
        finally:
            self._running = False
            # a small answer costs little
            self._next_at = began + ALIVE_S * min(1.0, count / PIECE)

    async def _sent(self, here: Here) -> bool:
        """Return whether it was received back; if not, it is repeated later."""
        try:
            return await self.publish(here)
        except Exception:
            log.failure("could not announce the sessions here")
            return False
