"""Tells the others who is here, in pieces, and all who ask together.

A piece is made and told when the one before it was heard: so there is one on its way at a time, of
whatever size the process is. Each is right at its own place in the order of news.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.chat.events import PIECE, Here
from svcserver.chat.leases import ALIVE_S

log = Logger()

ALL = ""  # instead of the process that asks


@define(eq=False)
class Answers:
    """One answer at a time. ``piece(since, readers)`` makes the next part of one; ``tell`` tells it
    and fires once it is heard, with False where nobody can be told. ``seconds`` is a timers' clock.
    """

    seconds: Callable[[], float]
    tell: Callable[[Here], Deferred[bool]]
    piece: Callable[[int, tuple[str, ...]], Here]
    _asked: dict[str, None] = field(factory=dict, init=False)
    _running: bool = field(default=False, init=False)
    _next_at: float = field(default=0.0, init=False)

    def give(self, asker: str) -> None:
        """Answer now, or with all others who ask until the next answer may begin."""
        self._asked[asker] = None
        self.look()
        if asker in self._asked and asker != ALL:
            wait = self.piece(0, (asker,)).to_come()
            Deferred.fromCoroutine(self._told(wait))

    def look(self) -> None:
        """Begin the next answer if it is time; called about once a second."""
        if self._asked and not self._running and self.seconds() >= self._next_at:
            readers = () if ALL in self._asked else tuple(self._asked)
            self._asked.clear()
            self._running = True
            Deferred.fromCoroutine(self._run(readers))

    async def _run(self, readers: tuple[str, ...]) -> None:
        began, count, since = self.seconds(), 0, 0
        try:
            while True:
                here = self.piece(since, readers)
                count += len(here.seats)
                if not await self._told(here) or here.until is None:
                    return
                since = here.until
        finally:
            self._running = False
            # what is small costs nobody anything
            self._next_at = began + ALIVE_S * min(1.0, count / PIECE)

    async def _told(self, here: Here) -> bool:
        """Whether it was heard. Where not, this process says anew who is here when it can."""
        try:
            return await self.tell(here)
        except Exception:
            log.failure("who is here could not be told")
            return False
