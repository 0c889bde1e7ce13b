"""What players own: inventory, currency, store, loadouts and the history of saves."""

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
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements
from svcserver.metagame.belongings.currency.routes import Currency
from svcserver.metagame.belongings.inventory.routes import Inventory
from svcserver.metagame.belongings.inventory.rules import Policy
from svcserver.metagame.belongings.inventory.store import forget_old
from svcserver.metagame.belongings.loadouts.routes import Loadouts
from svcserver.metagame.belongings.loadouts.rules import load as load_loadout_defaults
from svcserver.metagame.belongings.savehistory.routes import SaveHistory
from svcserver.metagame.belongings.savehistory.rules import Retention
from svcserver.metagame.belongings.savehistory.store import Thinning
from svcserver.metagame.belongings.shop.catalogue import load as load_catalogue
from svcserver.metagame.belongings.shop.routes import ClosedStore, Store
from svcserver.metagame.belongings.shop.store import forget_purchases
from svcserver.metagame.parts import Parts
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Feature

log = Logger()
HOUR_S = 3600.0


def features(parts: Parts) -> list[Feature]:
    """These features; raises BadData where a data file is no good."""
    settings, ledger, now = parts.settings, parts.ledger, parts.now
    policy = Policy(settings.inventory_refuse_overspend, settings.inventory_report_removals)
    relayed, thinning = parts.relayed, thinning_of(settings)
    catalogue = load_catalogue(repeatable=settings.store_repeatable_tokens)
    return [
        Inventory(policy, ledger, now, relayed),
        Currency.of(ledger, from_inventory=settings.balance_from_inventory),
        ClosedStore(),
        Store(
            catalogue,
            policy,
            lambda tx: SqlEntitlements(tx, settings.entitlements_default),
            ledger,
            now,
        ),
        Loadouts(
            load_loadout_defaults(),
            settings.real_progression,
            ledger,
            now,
            relayed,
            thinning.loadouts if thinning is not None else None,
        ),
        SaveHistory(ledger, now),
    ]


def thinning_of(settings: Settings) -> Thinning | None:
    """The thinning of save histories, or None while SAVE_HISTORY_KEEP is not set."""
    if settings.save_history_keep is None:
        return None
    return Thinning(
        Retention(
            settings.save_history_keep, settings.save_history_hourly, settings.save_history_daily
        )
    )


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
