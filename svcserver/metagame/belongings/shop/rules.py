"""The store's rules: which offers are for sale, and what a purchase gives. Spec: 1 §3, §4 Store."""

import re
from hashlib import sha256

from attrs import frozen

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Forbidden, Gone, Malformed, Missing
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.belongings.shop.catalogue import Offer

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
    """The refusal (403) of a purchase token that is not the caller's."""


@frozen
class Purchase:
    """A purchase token that was issued; times are in epoch milliseconds."""

    token_hash: str
    account_id: AccountId
    character_id: CharacterId
    sku: str
    offer_hash: str
    created_at: int
    expires_at: int
    redeemed_at: int | None = None


def remaining(offer: Offer, held: set[str], entitled: set[str]) -> int:
    """Return how many purchases of the offer are left, 0 or 1.

    For a repeatable offer, the number is always 1. For other offers, it is 0 if the player already
    has all items and all entitlements of the offer.
    """
    owned = held.issuperset(offer.catalog_ids) and entitled.issuperset(offer.entitlements)
    return 0 if owned and not offer.repeatable else 1


def is_allowed(offer: Offer) -> bool:
    """Return whether the offer is free, is not empty, and has only allowed items."""
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
    """Raise Malformed if ``currency`` is not the store's only currency."""
    if currency != CURRENCY:
        raise Malformed("unknown currency")


def check_sale(offer: Offer | None) -> Offer:
    """Return the offer; raises Missing if it is unknown, Conflict if it is not for sale."""
    if offer is None:
        raise Missing("no such offer")
    if not is_allowed(offer):
        raise Conflict("this offer is not sold")
    return offer


def new_purchase(
    offer: Offer, account_id: AccountId, character_id: CharacterId, token: str, at_ms: int
) -> Purchase:
    """Return the purchase of an offer; the purchase contains only the hash of the token."""
    return Purchase(
        fingerprint(token),
        account_id,
        character_id,
        offer.sku,
        offer.fingerprint,
        at_ms,
        at_ms + TOKEN_S * 1000,
    )


def hash_of(token: str | None) -> str:
    """Return the hash under which a purchase token is stored; raises Malformed."""
    if token is None or TOKEN.match(token) is None:
        raise Malformed("the purchase token is not valid")
    return fingerprint(token)


def check_redeemable(purchase: Purchase, offer: Offer | None, at_ms: int) -> Offer:
    """Check that a purchase may be redeemed, and return its offer.

    Raises Gone if the purchase has expired, and Conflict if the offer is no longer sold or has
    changed since the purchase token was issued.
    """
    if at_ms > purchase.expires_at:
        raise Gone("this purchase has expired")
    if offer is None or not is_allowed(offer) or offer.fingerprint != purchase.offer_hash:
        raise Conflict("this offer has changed or is no longer sold")
    return offer


def grant_of(
    offer: Offer, purchase: Purchase, held: set[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the offer's items that the character does not hold yet.

    The first result maps the catalogue ids of stacks to quantities. The second maps new instance
    ids to the catalogue ids of instanced items.
    """
    stacked: dict[str, int] = {}
    instanced: dict[str, str] = {}
    for catalog_id, quantity in offer.items or ():
        if catalog_id in held and not offer.repeatable:
            continue
        if offer.kinds.get(catalog_id) == "stacked":
            stacked[catalog_id] = stacked.get(catalog_id, 0) + quantity
        else:
            name = sha256(f"{purchase.token_hash}:{catalog_id}".encode()).hexdigest()[:32]
            instanced[name] = catalog_id
    return stacked, instanced
