"""What is forgotten of belongings while the metagame runs."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from sqlalchemy import Connection
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.metagame.belongings.inventory.store import forget_old
from svcserver.metagame.belongings.shop.store import forget_purchases

log = Logger()
HOUR_S = 3600.0


@define(eq=False, slots=False)
class Housekeeping(Service):
    """At start and hourly: forgets expired purchases and old answers of transactions."""

    ledger: Ledger
    clock: IReactorTime
    now: Callable[[], float]
    _loop: LoopingCall = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._loop = LoopingCall(self.tidy)
        self._loop.clock = self.clock

    def startService(self) -> None:
        """Tidy now and every hour."""
        Service.startService(self)
        self._loop.start(HOUR_S)

    def stopService(self) -> None:
        """Stop tidying."""
        Service.stopService(self)
        if self._loop.running:
            self._loop.stop()

    def tidy(self) -> Deferred[None]:
        """One round; a failure is logged and the next round tries again."""

        def work(tx: Connection) -> tuple[int, int]:
            now = self.now()
            return forget_purchases(tx, now), forget_old(tx, now)

        def said(counts: tuple[int, int]) -> None:
            log.debug(
                "forgot {purchases} purchases and {answers} answers",
                purchases=counts[0],
                answers=counts[1],
            )

        done = self.ledger.write(work).addCallback(said)
        return done.addErrback(lambda why: log.failure("tidying of belongings failed", why))
