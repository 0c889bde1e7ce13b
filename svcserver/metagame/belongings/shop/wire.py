"""Reply shapes of the store. Spec: 1 §4 Store."""

from typing import TypedDict

from svcserver.kernel.json import Fragment
from svcserver.metagame.belongings.shop.catalogue import Offer


class OfferedItem(TypedDict):
    """An item of an offer, and its quantity."""

    catalogId: str
    quantity: int


class OfferedEntitlement(TypedDict):
    """An entitlement in an offer; ``duration`` is in hours, 0 means forever."""

    name: str
    duration: int


class OfferReply(TypedDict):
    """An offer; the client ignores offers that do not have all 22 fields."""

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
    """A new purchase token; the server cannot show the token again."""

    purchaseToken: str


def show_offer(offer: Offer, remaining: int) -> Fragment:
    """Return the offer's JSON; ``remaining`` is the number of purchases left, 0 or 1."""
    return Fragment(offer.encoded[remaining])
