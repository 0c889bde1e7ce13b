"""Reply shapes of the store. Spec: 1 §4 Store."""

from __future__ import annotations

from typing import TypedDict

from svcserver.kernel.json import Fragment
from svcserver.metagame.belongings.shop.catalogue import Offer


class OfferedItem(TypedDict):
    """An item of an offer, and the quantity that the active character gets."""

    catalogId: str
    quantity: int


class OfferedEntitlement(TypedDict):
    """An entitlement of an offer; ``duration`` in hours, 0 for ever."""

    name: str
    duration: int


class OfferReply(TypedDict):
    """An offer; the client drops one that lacks any of the 22 fields."""

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


def show(offer: Offer, remaining: int) -> Fragment:
    """The wire form of an offer, encoded once for each of 0 and 1 remaining."""
    return Fragment(offer.encoded[remaining])
