"""Writes what is counted to the database from time to time, and reads it again."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from sqlalchemy import Connection
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.kernel.every import Every
from svcserver.metagame.owner.figures.rules import (
    HOUR_S,
    MINUTE_S,
    Gathering,
    Kept,
    Range,
    start,
)
from svcserver.metagame.owner.figures.store import SqlFigures


@define(eq=False)
class Figures:
    """What this process has gathered, and what all have written.

    ``wall_clock`` gives epoch seconds.
    """

    ledger: Ledger
    wall_clock: Callable[[], float]
    gathering: Gathering = field(factory=Gathering, init=False)
    _tidied: int = field(default=0, init=False)  # the hour in which old ones were last dropped

    def write(self) -> Deferred[None]:
        """Add what was gathered, in one transaction.

        What could not be written is left out, not tried again: nobody knows of a commit whose
        answer was lost, and no minute is to count twice.
        """
        gathered, hour = self.gathering.taken(), start(self.wall_clock(), HOUR_S)
        if not gathered:
            return succeed(None)
        tidies, self._tidied = hour != self._tidied, hour

        def work(tx: Connection) -> None:
            kept = SqlFigures(tx)
            kept.add(gathered)
            if tidies:
                kept.forget_old(int(self.wall_clock()))

        return self.ledger.write(work, ACROSS)

    async def read(self, asked: Range) -> list[Kept]:
        """The spans of the range, up to the running one."""

        def work(tx: Connection) -> list[Kept]:
            now = int(self.wall_clock())
            since = start(now - asked.seconds, asked.step_s)
            return SqlFigures(tx).since(asked.step_s, since, now)

        return await self.ledger.read(work)


def figures_watch(figures: Figures, clock: IReactorTime) -> Every:
    """The service that writes once a minute, and when it stops."""
    return Every(clock, MINUTE_S, figures.write, "writing the figures of a minute", at_end=True)
