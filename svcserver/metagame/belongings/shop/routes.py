"""The store as the client asks for it. Spec: 1 §4 Store.

A purchase token travels in the query, which is never logged.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Fragment
from svcserver.kernel.refusals import Forbidden, Malformed, Missing, Refusal, Unauthenticated
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.inventory.rules import Policy
from svcserver.metagame.belongings.inventory.store import active_character, held_by
from svcserver.metagame.belongings.shop import rules
from svcserver.metagame.belongings.shop.catalogue import Catalogue, Offer
from svcserver.metagame.belongings.shop.rules import Entitlements, NotYours, Purchase
from svcserver.metagame.belongings.shop.store import SqlPurchases, StoreItems
from svcserver.web.routes import NO_CONTENT, Access, Answer, Call, Routes, coded

log = Logger()


class OfferedItem(TypedDict):
    """Something the offer gives."""

    catalogId: str
    quantity: int


class OfferedEntitlement(TypedDict):
    """``duration`` in hours; 0 for ever."""

    name: str
    duration: int


class OfferReply(TypedDict):
    """An offer; one of the 22 fields missing makes the client drop it."""

    id: str
    displayName: str
    displayDescription: str
    displayPriority: int
    tags: list[str]
    platinumPrice: int
    platinumSalePrice: None
    cellDustPrice: None
    prestigePrice: None
    event01Price: None
    steelMarksPrice: None
    gildedMarksPrice: None
    items: list[OfferedItem] | None
    entitlements: list[OfferedEntitlement]
    maxAllowed: int
    remaining: int
    loadoutSlots: None
    availableFrom: None
    availableTo: None
    timeAvailabilityReason: None
    platformOfferId: None
    missingEntitlementNames: None


class TokenReply(TypedDict):
    """The only copy of a purchase token."""

    purchaseToken: str


def is_free(settings: Any) -> bool:
    """STORE=free."""
    return bool(settings.store == "free")


def is_off(settings: Any) -> bool:
    """STORE=off."""
    return not is_free(settings)


def refuse(status: int, refusal: Refusal) -> Answer:
    """``{code: '<status>', message}``; the gate's own refusals have no body."""
    by_gate = isinstance(refusal, Unauthenticated | Forbidden) and not isinstance(refusal, NotYours)
    return Answer(status) if by_gate else coded(status, refusal)


@frozen
class ClosedStore:
    """What a closed store says to a client that opens its store screen."""

    routes: ClassVar[Routes] = Routes(refuse)

    @routes.row("GET", "/product/skus/public", access=Access.TOKEN, when=is_off, body_log=True)
    async def listing(self, call: Call) -> Answer:
        raise Malformed("the store is closed")


@frozen
class Store:
    """Offers, purchase tokens, redemption.

    ``rights`` makes the entitlements of an open transaction.
    """

    routes: ClassVar[Routes] = Routes(refuse)
    catalogue: Catalogue
    policy: Policy
    rights: Callable[[Connection], Entitlements]
    ledger: Ledger
    now: Callable[[], float]
    data: AccountData

    @routes.row(
        "GET",
        "/product/skus/public",
        access=Access.PLAYER,
        when=is_free,
        reply=list[OfferReply],
        body_log=True,
    )
    async def listing(self, call: Call) -> Answer:
        """The offers of one tag, each with what remains of it."""
        account_id, asked = call.player, call.request.arguments("requiredTags")
        if len(asked) != 1 or not asked[0]:
            raise Malformed("missing requiredTags query parameter")
        offers = self.catalogue.by_tag.get(asked[0])
        if offers is None:
            log.warn("unknown store tag {tag!r}", tag=asked[0][:64])
        if not offers:
            return Answer(200, [])
        held, entitled = await self._owned(account_id)
        return Answer(200, [_shown(offer, held, entitled) for offer in offers])

    @routes.row(
        "GET",
        "/product/sku/<sku_id>",
        access=Access.PLAYER,
        when=is_free,
        reply=OfferReply,
        body_log=True,
    )
    async def offer(self, call: Call, sku_id: str) -> Answer:
        """One offer of any tag."""
        account_id, offer = call.player, self.catalogue.offers.get(sku_id)
        if offer is None:
            raise Missing("no such offer")
        held, entitled = await self._owned(account_id)
        return Answer(200, _shown(offer, held, entitled))

    @routes.row(
        "GET",
        "/token/<currency>/<sku_id>",
        access=Access.PLAYER,
        when=is_free,
        reply=TokenReply,
        body_log=True,
    )
    async def token(self, call: Call, currency: str, sku_id: str) -> Answer:
        """A token for one purchase."""
        account_id = call.player
        rules.priced_in(currency)

        def work(tx: Connection) -> str:
            counter, rights, token = SqlPurchases(tx), self.rights(tx), secrets.token_hex(32)
            now = self.now()
            rules.issue(counter, rights, self.catalogue, account_id, sku_id, token, now)
            return token

        return Answer(200, {"purchaseToken": await self.ledger.write(work)})

    @routes.row(
        "POST", "/notification/<currency>", access=Access.PLAYER, when=is_free, body_log=True
    )
    async def redeem(self, call: Call, currency: str) -> Answer:
        """Grant the purchase, once; again is 204 and grants nothing."""
        account_id = call.player
        rules.priced_in(currency)
        sent = call.request.arguments("token")
        token = sent[0] if len(sent) == 1 else None

        def work(tx: Connection) -> Purchase | None:
            counter, core = SqlPurchases(tx), StoreItems(tx, self.policy)
            rights, now = self.rights(tx), self.now()
            return rules.redeem(counter, rights, core, self.catalogue, account_id, token, now)

        await self.ledger.write(work)
        return NO_CONTENT

    async def _owned(self, account_id: AccountId) -> tuple[set[str], set[str]]:
        def work(tx: Connection) -> tuple[set[str], set[str]]:
            character_id = active_character(tx, account_id)
            held = held_by(tx, character_id) if character_id is not None else set()
            return held, self.rights(tx).active(account_id, self.now())

        return await self.data.read(account_id, work)


def _shown(offer: Offer, held: set[str], entitled: set[str]) -> Fragment:
    return Fragment(offer.encoded[rules.remaining(offer, held, entitled)])
