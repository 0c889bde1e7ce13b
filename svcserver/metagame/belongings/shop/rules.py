"""Rules of the store: what may be bought, and granting it exactly once. Spec: 1 §3, §4 Store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from attrs import evolve, frozen

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Forbidden, Gone, Malformed, Missing
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.belongings import items
from svcserver.metagame.belongings.items import Stacked
from svcserver.metagame.belongings.shop.catalogue import Catalogue, Offer

if TYPE_CHECKING:
    from svcserver.metagame.belongings.shop.store import SqlPurchases, StoreItems

CURRENCY = "platinum"
TOKEN_S = 600
MAX_TOKENS = 60  # per account in TOKEN_S seconds
TOKEN = re.compile(r"[a-f0-9]{64}\Z")
ALLOWED = (
    "AR_",
    "WP_",
    "EM_",
    "DYE_",
    "QI_FLARE_",
    "BNC_FABRIC_",
    "BNC_STANDARD_",
    "BNC_SIGIL_",
    "LT_",
)
REPEATABLE_ITEM = "TOKEN_BOUNTY_DRAFT_PREMIUM"


class NotYours(Forbidden):
    """A 403 by the store, which has a body, unlike the gate's."""


@frozen
class Grant:
    """Items to add to a character; ``instanced`` are ids with their catalogue ids."""

    transaction_id: str | None
    source: str
    stacked: Sequence[Stacked]
    instanced: Sequence[tuple[str, str]]


@frozen
class Purchase:
    """An issued purchase token; times in epoch milliseconds."""

    token_hash: str
    account_id: AccountId
    character_id: CharacterId
    sku: str
    offer_hash: str
    created_at: int
    expires_at: int
    redeemed_at: int | None = None


class Entitlements(Protocol):
    """The entitlements of accounts, inside the same transaction (``achievements/entitlements``)."""

    def active(self, account_id: AccountId, now: float) -> set[str]:
        """The names of the entitlements in force at ``now`` (epoch seconds)."""

    def grant(
        self, account_id: AccountId, entitlement: str, duration: float, source: str, now: float
    ) -> None:
        """Grant for ``duration`` hours, 0 for ever; ``source`` is kept with it."""


def remaining(offer: Offer, held: set[str], entitled: set[str]) -> int:
    """0 when every item is held and every entitlement in force; always 1 for a repeatable offer."""
    if offer.repeatable:
        return 1
    owned = all(one in held for one in offer.catalog_ids) and all(
        one in entitled for one in offer.entitlements
    )
    return 0 if owned else 1


def is_allowed(offer: Offer) -> bool:
    """Whether the offer is free, grants something, and only what the store may grant."""
    if offer.price != 0 or not (offer.items or offer.entitlements):
        return False
    if offer.repeatable:
        [(catalog_id, quantity), *more] = offer.items or (("", 0),)
        return catalog_id == REPEATABLE_ITEM and quantity > 0 and not (more or offer.entitlements)
    return all(
        quantity == 1 and catalog_id.startswith(ALLOWED) and catalog_id in offer.kinds
        for catalog_id, quantity in offer.items or ()
    )


def priced_in(currency: str) -> None:
    """Check the currency in a path, of which there is only one; raises Malformed."""
    if currency != CURRENCY:
        raise Malformed("unknown currency")


def issue(
    purchases: SqlPurchases,
    entitlements: Entitlements,
    catalogue: Catalogue,
    account_id: AccountId,
    sku: str,
    token: str,
    now: float,
) -> Purchase:
    """Issue ``token`` for one offer, bound to the account's active character.

    Order of refusal: unknown offer (404), not sold (409), no character (409), all owned
    already (409), 60 tokens within ten minutes (409). ``now`` in epoch seconds.
    """
    offer, at_ms = catalogue.offers.get(sku), int(now * 1000)
    if offer is None:
        raise Missing("no such offer")
    if not is_allowed(offer):
        raise Conflict("this offer is not sold")
    character_id = purchases.active_character(account_id)
    if character_id is None:
        raise Conflict("this account has no character")
    if remaining(offer, purchases.held(character_id), entitlements.active(account_id, now)) == 0:
        raise Conflict("everything in this offer is already owned")
    if purchases.tokens_since(account_id, at_ms - TOKEN_S * 1000) >= MAX_TOKENS:
        raise Conflict("too many purchases; try again in a few minutes")
    purchases.drop_expired(account_id, at_ms)
    purchase = Purchase(
        fingerprint(token),
        account_id,
        character_id,
        sku,
        offer.fingerprint,
        at_ms,
        at_ms + TOKEN_S * 1000,
    )
    purchases.add(purchase)
    return purchase


def redeem(
    purchases: SqlPurchases,
    entitlements: Entitlements,
    core: StoreItems,
    catalogue: Catalogue,
    account_id: AccountId,
    token: str | None,
    now: float,
) -> Purchase | None:
    """Grant the purchase of the token; None when that was done before.

    Order: malformed (400), not the account's token (403), character no longer the account's
    (403), already redeemed (None), expired (410), offer gone or changed (409).
    """
    if token is None or TOKEN.match(token) is None:
        raise Malformed("not a purchase token")
    purchase, at_ms = purchases.find(fingerprint(token)), int(now * 1000)
    if purchase is None or purchase.account_id != account_id:
        raise NotYours("not one of your purchases")
    if purchases.owner(purchase.character_id) != account_id:
        raise NotYours("the character is no longer yours")
    if purchase.redeemed_at is not None:
        return None
    if at_ms > purchase.expires_at:
        raise Gone("this purchase has expired")
    offer = catalogue.offers.get(purchase.sku)
    if offer is None or not is_allowed(offer) or offer.fingerprint != purchase.offer_hash:
        raise Conflict("this offer has changed or is no longer sold")
    source = f"store:{offer.sku}"
    grant = grant_of(offer, purchase, purchases.held(purchase.character_id), source)
    if grant.stacked or grant.instanced:
        core.give(account_id, purchase.character_id, grant, now)
    for entitlement in offer.entitlements:
        entitlements.grant(account_id, entitlement, 0, source, now)
    redeemed = evolve(purchase, redeemed_at=at_ms)
    purchases.redeem(redeemed)
    return redeemed


def grant_of(offer: Offer, purchase: Purchase, held: set[str], source: str) -> Grant:
    """The items of the offer that are not held yet."""
    stacked: list[Stacked] = []
    instanced: list[tuple[str, str]] = []
    for catalog_id, quantity in offer.items or ():
        if catalog_id in held and not offer.repeatable:
            continue
        if offer.kinds.get(catalog_id) == "stacked":
            stacked.append(Stacked(catalog_id, quantity))
        else:
            name = sha256(f"{purchase.token_hash}:{catalog_id}".encode()).hexdigest()[:32]
            instanced.append((name, catalog_id))
    transaction_id = items.transaction_id(f"store:{purchase.token_hash}")
    return Grant(transaction_id, source, stacked, instanced)
