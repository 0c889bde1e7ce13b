"""The store's offers from ``data/catalogue.json``, which an owner may replace. Spec: 1 §4 Store.

Each offer in the file is ``{id, name, tags, items, entitlements?, priority?, price?}``. ``items``
lists catalogue ids; ``ID*20`` means a quantity of 20. For an offer without items, ``items`` is
null.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

from attrs import field, frozen

from svcserver.kernel import datafiles, json

PACKAGE, FILE = "svcserver.metagame.belongings.shop", "catalogue.json"
ITEM = re.compile(r"([A-Z][A-Z0-9_]{0,127})(?:\*([1-9][0-9]{0,8}))?\Z")
SKU = re.compile(r"[a-z0-9_]{1,128}\Z")
DESCRIPTION = "Free."


@frozen(slots=False)
class Offer:
    """An offer; ``kinds`` says for each catalogue id whether it is ``stacked`` or ``instanced``."""

    sku: str
    name: str
    priority: int
    tags: tuple[str, ...]
    items: tuple[tuple[str, int], ...] | None
    entitlements: tuple[str, ...]
    kinds: Mapping[str, str] = field(repr=False)
    price: int = 0
    repeatable: bool = False

    @property
    def catalog_ids(self) -> Iterable[str]:
        """The catalogue ids of the offer's items."""
        return (catalog_id for catalog_id, _ in self.items or ())

    def shape(self, remaining: int) -> dict[str, Any]:
        """Return the offer as replies contain it, with all 22 fields that the client requires."""
        items = self.items
        return {
            "id": self.sku,
            "displayName": self.name,
            "displayDescription": DESCRIPTION,
            "displayPriority": self.priority,
            "tags": list(self.tags),
            "platinumPrice": self.price,
            "platinumSalePrice": None,
            "cellDustPrice": None,
            "prestigePrice": None,
            "event01Price": None,
            "steelMarksPrice": None,
            "gildedMarksPrice": None,
            "items": None
            if items is None
            else [
                {"catalogId": catalog_id, "quantity": quantity} for catalog_id, quantity in items
            ],
            "entitlements": [{"name": name, "duration": 0} for name in self.entitlements],
            "maxAllowed": 1,
            "remaining": remaining,
            "loadoutSlots": None,
            "availableFrom": None,
            "availableTo": None,
            "timeAvailabilityReason": None,
            "platformOfferId": None,
            "missingEntitlementNames": None,
        }

    @cached_property
    def encoded(self) -> tuple[bytes, bytes]:
        """The offer's JSON in two versions: for 0 and for 1 remaining purchases."""
        return json.dump(self.shape(0)), json.dump(self.shape(1))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the offer's JSON."""
        return sha256(self.encoded[1]).hexdigest()


@frozen
class Catalogue:
    """The offers by SKU, and by the first of their tags."""

    offers: Mapping[str, Offer]
    by_tag: Mapping[str, tuple[Offer, ...]]


def load(*, repeatable: bool) -> Catalogue:
    """Return the catalogue from the data file; raises BadData.

    With ``repeatable``, the catalogue also has the repeatable offers.
    """
    return datafiles.load(PACKAGE, FILE, partial(parse_catalogue, repeatable=repeatable))


def parse_catalogue(data: dict[str, Any], *, repeatable: bool) -> Catalogue:
    """Return the catalogue of a parsed file; raises a ValueError that names the first fault."""
    kinds = {item: kind for kind in ("stacked", "instanced") for item in _texts(data, kind)}
    endless = set(_texts(data, "repeatable"))
    rows = data.get("offers")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError('"offers" must be a list of objects')
    offers: dict[str, Offer] = {}
    by_tag: dict[str, list[Offer]] = {tag: [] for tag in _texts(data, "empty_tags")}
    for index, row in enumerate(rows, 1):
        offer = _offer(row, 2000 - index, kinds, endless)
        if offer.sku in offers:
            raise ValueError(f"offer {offer.sku} is listed twice")
        offers[offer.sku] = offer
        for tag in offer.tags[:1]:
            if repeatable or not offer.repeatable:
                by_tag.setdefault(tag, []).append(offer)
    sold = {sku: offer for sku, offer in offers.items() if repeatable or not offer.repeatable}
    return Catalogue(sold, {tag: tuple(listed) for tag, listed in by_tag.items()})


def _offer(
    row: dict[str, Any], priority: int, kinds: Mapping[str, str], endless: set[str]
) -> Offer:
    sku, name = row.get("id"), row.get("name")
    if not isinstance(sku, str) or SKU.match(sku) is None:
        raise ValueError("every offer needs an id of 1 to 128 characters, only a-z, 0-9 and _")
    if not isinstance(name, str) or not name:
        raise ValueError(f"offer {sku} needs a name")
    priority, price = row.get("priority", priority), row.get("price", 0)
    if type(priority) is not int or type(price) is not int or price < 0:
        raise ValueError(
            f"the priority and the price of offer {sku} must be whole numbers, and the price must "
            "be 0 or higher"
        )
    tags = _texts(row, "tags")
    if not tags:
        raise ValueError(f"offer {sku} needs a tag")
    listed = row.get("items")
    items = None if listed is None else tuple(_item(sku, item) for item in _texts(row, "items"))
    entitlements = tuple(_texts(row, "entitlements"))
    own = {item: kinds[item] for item, _ in items or () if item in kinds}
    return Offer(sku, name, priority, tuple(tags), items, entitlements, own, price, sku in endless)


def _item(sku: str, text: str) -> tuple[str, int]:
    match = ITEM.match(text)
    if match is None:
        raise ValueError(
            f"offer {sku} has the item {text!r}, which is not ID or ID*COUNT, such as ITEM_A*5"
        )
    return match[1], int(match[2] or 1)


def _texts(data: dict[str, Any], name: str) -> list[str]:
    value = data.get(name, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise ValueError(f'"{name}" must be a list of non-empty strings')
    return value
