"""Items as they are sent: read strictly into values, before anything is looked up.

Spec: 1 §2 Inventory transaction.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.inventory.sizes import ROW, Size

MAX_WHOLE = 2**53 - 1  # what a client's number can hold exactly
MAX_DIGITS = 16
MAX_ID = 256  # characters
MAX_SOURCE = 128  # characters
MAX_LISTED = 20_000  # entries of all lists of one transaction


@frozen
class Stacked:
    """So many of one kind; ``extra`` are further keys, kept and returned as sent."""

    catalog_id: str
    quantity: int
    extra: bytes | None = None

    @property
    def size(self) -> Size:
        """What it counts towards the bounds of a character."""
        return Size(1, ROW + len(self.catalog_id.encode()) + len(self.extra or b""))


@frozen
class Instance:
    """A single item with a version of its own; ``body`` is the item as sent, as JSON."""

    instance_id: str
    catalog_id: str
    version: int | None
    stateless: bool
    body: bytes = field(repr=False)

    @property
    def size(self) -> Size:
        """What it counts towards the bounds of a character."""
        return Size(1, ROW + len(self.body))


@frozen
class Removal:
    """An instance to take away; only a lower version than the stored one is refused."""

    instance_id: str
    version: int | None


@frozen
class Transaction:
    """One change of one character's belongings.

    ``added_instanced`` and ``removed_instanced`` are the lists as sent, to be echoed.
    ``transaction_id`` is None when repeats cannot be told.
    """

    transaction_id: str | None
    source: str
    add_stacked: list[Stacked]
    remove_stacked: list[Stacked]
    add: list[Instance]
    save: list[Instance]
    remove: list[Removal]
    added_instanced: list[Any] = field(factory=list, repr=False)
    removed_instanced: list[Any] = field(factory=list, repr=False)

    @property
    def is_empty(self) -> bool:
        """Nothing listed at all."""
        return not (self.add_stacked or self.remove_stacked or self.add or self.save or self.remove)


def transaction(sent: dict[str, Any]) -> Transaction:
    """The transaction a body asks for; raises Malformed."""
    lists = {
        name: _objects(sent.get(name), name)
        for name in (
            "addInstancedItems",
            "addStackedItems",
            "removeInstancedItems",
            "removeStackedItems",
            "saveInstancedItems",
        )
    }
    if sum(map(len, lists.values())) > MAX_LISTED:
        raise Malformed("too many items in one transaction")
    return Transaction(
        transaction_id(sent.get("transactionId")),
        source_of(sent.get("source")),
        [stacked(one) for one in lists["addStackedItems"]],
        [stacked(one) for one in lists["removeStackedItems"]],
        [instance(one) for one in lists["addInstancedItems"]],
        [instance(one) for one in lists["saveInstancedItems"]],
        [removal(one) for one in lists["removeInstancedItems"]],
        lists["addInstancedItems"],
        lists["removeInstancedItems"],
    )


def transaction_id(sent: object) -> str | None:
    """The id by which a repeat is known; None for one that names nothing.

    Empty, not a text, or made of ``0`` and ``-`` alone names nothing. A long id is kept
    as its hash.
    """
    if not isinstance(sent, str) or not sent.strip("0-"):
        return None
    return sent if len(sent) <= 64 and "\0" not in sent else sha256(sent.encode()).hexdigest()


def source_of(sent: object) -> str:
    """What the item log keeps of ``source``."""
    return sent[:MAX_SOURCE].replace("\0", "") if isinstance(sent, str) else ""


def _objects(sent: object, name: str) -> list[dict[str, Any]]:
    if sent is None:
        return []
    if not isinstance(sent, list) or not all(isinstance(one, dict) for one in sent):
        raise Malformed(f"{name} must be a list of objects")
    return sent


def stacked(sent: dict[str, Any]) -> Stacked:
    """A stacked item: a catalogue id and a whole quantity of at least 0."""
    catalog_id, quantity = identifier(sent.get("catalogId"), "catalogId"), sent.get("quantity")
    if isinstance(quantity, str) and quantity.isascii() and quantity.isdigit():
        quantity = int(quantity) if len(quantity) <= MAX_DIGITS else -1
    extra = None
    if len(sent) > 2:
        more = {key: one for key, one in sent.items() if key not in ("catalogId", "quantity")}
        extra = json.dump(more)
    return Stacked(catalog_id, whole(quantity, "quantity"), extra)


def instance(sent: dict[str, Any]) -> Instance:
    """A single item; a stateless one has version 0."""
    data, version = sent.get("itemData"), sent.get("updateVersion")
    if data is not None and not isinstance(data, str):
        raise Malformed("itemData must be a text or null")
    if version is not None:
        version = whole(version, "updateVersion")
    stateless = data is None
    if stateless and version:
        raise Malformed("an item without data has version 0")
    return Instance(
        identifier(sent.get("instanceId"), "instanceId"),
        identifier(sent.get("catalogId"), "catalogId"),
        0 if stateless else version,
        stateless,
        json.dump(sent),
    )


def removal(sent: dict[str, Any]) -> Removal:
    """What is needed to take an instance away."""
    version = sent.get("updateVersion")
    return Removal(
        identifier(sent.get("instanceId"), "instanceId"),
        None if version is None else whole(version, "updateVersion"),
    )


def whole(sent: object, name: str) -> int:
    """A whole number from 0 to what a client can hold; raises Malformed."""
    if type(sent) is float and sent.is_integer():
        sent = int(sent)
    if type(sent) is not int or not 0 <= sent <= MAX_WHOLE:
        raise Malformed(f"{name} must be a whole number of at least 0")
    return sent


def identifier(sent: object, name: str) -> str:
    """A non-empty text of at most 256 characters; raises Malformed."""
    if not isinstance(sent, str) or not 1 <= len(sent) <= MAX_ID or "\0" in sent:
        raise Malformed(f"{name} must be a text")
    return sent
