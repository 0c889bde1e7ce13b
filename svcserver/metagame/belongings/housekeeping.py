"""The periodic deletion of old purchases, old item-log rows and stored results of requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

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
    """Return the service that deletes old purchases and old rows of the inventories' item log.

    The service runs at start-up and every hour.
    """

    def work(tx: Connection) -> tuple[int, int]:
        return forget_purchases(tx, wall_clock()), forget_old(tx, wall_clock())

    async def tidy() -> None:
        purchases, answers = await ledger.write(work, ACROSS)
        text = "forgot {purchases} purchases and {answers} answers"
        log.debug(text, purchases=purchases, answers=answers)

    return _every(clock, HOUR_S, tidy, "the deletion of expired purchases and answers")


def forgetting(ledger: Ledger, clock: IReactorTime, wall_clock: Callable[[], float]) -> Every:
    """Return the service that deletes the stored results of old requests, in batches."""

    async def tidy() -> None:
        while await ledger.write(lambda tx: forget_attempts(tx, wall_clock()), ACROSS) == BATCH:
            pass

    return _every(clock, MINUTE_S, tidy, "the deletion of the results of requests")


def _every(
    clock: IReactorTime, seconds: float, tidy: Callable[[], Coroutine[Any, Any, None]], name: str
) -> Every:
    return Every(clock, seconds, lambda: Deferred.fromCoroutine(tidy()), name, at_once=True)
