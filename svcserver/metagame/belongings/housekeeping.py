"""Periodic deletion of expired purchases, of old stored answers and of results of requests."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.kernel.every import Every
from svcserver.metagame.belongings.inventory.store import forget_old
from svcserver.metagame.belongings.shop.store import forget_purchases
from svcserver.metagame.once import BATCH, forget_attempts

log = Logger()
HOUR_S, MINUTE_S = 3600.0, 60.0


def housekeeping(ledger: Ledger, clock: IReactorTime, wall_clock: Callable[[], float]) -> Every:
    """The service that deletes them, at the start and hourly."""

    def work(tx: Connection) -> tuple[int, int]:
        at = wall_clock()
        return forget_purchases(tx, at), forget_old(tx, at)

    def said(counts: tuple[int, int]) -> None:
        log.debug(
            "forgot {purchases} purchases and {answers} answers",
            purchases=counts[0],
            answers=counts[1],
        )

    def tidy() -> Deferred[None]:
        return ledger.write(work, ACROSS).addCallback(said)

    return Every(clock, HOUR_S, tidy, "the deletion of expired purchases and answers", at_once=True)


def forgetting(ledger: Ledger, clock: IReactorTime, wall_clock: Callable[[], float]) -> Every:
    """The service that deletes the results of old requests, in batches."""

    async def tidy() -> None:
        while await ledger.write(lambda tx: forget_attempts(tx, wall_clock()), ACROSS) == BATCH:
            pass

    def look() -> Deferred[None]:
        return Deferred.fromCoroutine(tidy())

    return Every(clock, MINUTE_S, look, "the deletion of the results of requests", at_once=True)
