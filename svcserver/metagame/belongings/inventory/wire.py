"""The request and reply shapes of inventories. Spec: 1 §2 Inventory transaction.

Items are validated strictly before any database access.
"""

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict

from attrs import define, field, frozen

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import (
    Count,
    CountOrDigits,
    Itself,
    Lenient,
    TextWithNul,
    camel_case,
    further_members,
    sent_as,
    spelled,
    text,
)
from svcserver.metagame.belongings.items import (
    Instance,
    Removal,
    Transaction,
    source_of,
    transaction_id,
)
from svcserver.metagame.belongings.records import show_transaction

AS_SENT = "Members that the game client sent with the item come back as they were."
MAX_LISTED = 20_000  # entries in all lists of a transaction together
Identifier = Annotated[str, text(1, 256)]


@spelled(camel_case)
@define  # not frozen: creating a frozen object takes twice as long
class StackRequest:
    """A stack to add or remove. Unknown keys of an added stack are stored and returned."""

    catalog_id: Identifier
    quantity: CountOrDigits
    sent: Itself = field(factory=dict)

    @property
    def extra(self) -> bytes:
        """Return the unknown keys as JSON, or empty bytes if there are none."""
        if len(self.sent) <= 2:
            return b""
        known = ("catalogId", "quantity")
        return json.dump({key: value for key, value in self.sent.items() if key not in known})


@spelled(camel_case)
@frozen
class InstanceRequest:
    """An instanced item. Without ``itemData``, ``updateVersion`` must be 0 or absent."""

    instance_id: Identifier
    catalog_id: Identifier
    item_data: TextWithNul | None = None
    update_version: Count | None = None
    sent: Itself = field(factory=dict)

    def instance(self) -> Instance:
        """Return the item as an ``Instance``, with unchanged data."""
        return instance_of(
            self.instance_id, self.catalog_id, self.item_data, self.update_version, self.sent
        )


@spelled(camel_case)
@frozen
class RemovalRequest:
    """An instanced item to remove."""

    instance_id: Identifier
    update_version: Count | None = None
    sent: Itself = field(factory=dict)


def _listed(name: str) -> Any:
    return field(default=None, metadata=sent_as(message=f"{name} must be a list of objects"))


@spelled(camel_case)
@define  # not frozen: creating a frozen object takes twice as long
class TransactionRequest:
    """One transaction; a repeated ``transactionId`` changes nothing.

    ``accountId`` is used only in requests of game servers. A missing list counts as empty.
    """

    character_id: Lenient[str | None] = None
    account_id: Lenient[TextWithNul | None] = None
    transaction_id: Lenient[TextWithNul | None] = None
    source: Lenient[TextWithNul | None] = None
    add_instanced_items: tuple[InstanceRequest, ...] | None = _listed("addInstancedItems")
    add_stacked_items: tuple[StackRequest, ...] | None = _listed("addStackedItems")
    remove_instanced_items: tuple[RemovalRequest, ...] | None = _listed("removeInstancedItems")
    remove_stacked_items: tuple[StackRequest, ...] | None = _listed("removeStackedItems")
    save_instanced_items: tuple[InstanceRequest, ...] | None = _listed("saveInstancedItems")

    def transaction(self) -> Transaction:
        """Return the ``Transaction`` that the rules work on.

        Raises Malformed if the request has too many entries.
        """
        add, save = self.add_instanced_items or (), self.save_instanced_items or ()
        add_stacked, remove_stacked = self.add_stacked_items or (), self.remove_stacked_items or ()
        remove = self.remove_instanced_items or ()
        if len(add) + len(save) + len(remove) + len(add_stacked) + len(remove_stacked) > MAX_LISTED:
            raise Malformed("too many items in one transaction")
        return Transaction(
            transaction_id(self.transaction_id),
            source_of(self.source),
            partial(show_transaction, [item.sent for item in add], [item.sent for item in remove]),
            _sums(add_stacked),
            _sums(remove_stacked),
            {stack.catalog_id: extra for stack in add_stacked if (extra := stack.extra)},
            [item.instance() for item in add],
            [item.instance() for item in save],
            [Removal(item.instance_id, item.update_version) for item in remove],
        )


def _sums(stacks: Iterable[StackRequest]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for stack in stacks:
        sums[stack.catalog_id] = sums.get(stack.catalog_id, 0) + stack.quantity
    return sums


@spelled(camel_case)
@frozen
class ItemRequest:
    """The new state of a held item; ``accountId`` is used only in requests of game servers."""

    instance_id: Identifier
    catalog_id: Identifier
    item_data: TextWithNul | None = None
    update_version: Count | None = 0
    character_id: Lenient[str | None] = None
    account_id: Lenient[TextWithNul | None] = None

    def instance(self) -> Instance:
        """Return the item as an ``Instance``, without unknown keys of the request."""
        members = {
            "catalogId": self.catalog_id,
            "instanceId": self.instance_id,
            "itemData": self.item_data,
            "updateVersion": self.update_version,
        }
        return instance_of(
            self.instance_id, self.catalog_id, self.item_data, self.update_version, members
        )


def account_named(sent: Json) -> AccountId | None:
    """Return the account id in a game server's body, or None.

    Raises Malformed if the body is no object.
    """
    if not isinstance(sent, dict):
        raise Malformed("the body must be an object")
    named = sent.get("accountId")
    return named if isinstance(named, str) and named else None


def instance_of(
    instance_id: str,
    catalog_id: str,
    data: str | None,
    version: int | None,
    members: dict[str, Any],
) -> Instance:
    """Return an instanced item; raises Malformed if it has a version but no data."""
    stateless = data is None
    if stateless and version:
        raise Malformed("an item without data has version 0")
    version = 0 if stateless else version
    return Instance(instance_id, catalog_id, version, stateless, json.dump(members))


@further_members(AS_SENT)
class StackedItem(TypedDict):
    """A stack: a catalogue id and a quantity."""

    catalogId: str
    quantity: int


@further_members(AS_SENT)
class InstancedItem(TypedDict):
    """An instanced item; ``itemData`` is JSON text."""

    catalogId: str
    instanceId: str
    itemData: NotRequired[str | None]
    updateVersion: NotRequired[int]


@further_members(AS_SENT)
class RemovedItem(TypedDict):
    """An instanced item that the transaction removed."""

    instanceId: str
    updateVersion: NotRequired[int]


class InventoryReply(TypedDict):
    """All items that a character holds."""

    characterId: str
    instancedItems: list[InstancedItem]
    stackedItems: list[StackedItem]


class TransactionReply(TypedDict):
    """The items that the transaction changed; each stack is sent with its new total quantity."""

    createdInstancedItems: list[InstancedItem]
    updatedInstancedItems: list[InstancedItem]
    updatedStackedItems: list[StackedItem]
    removedInstancedItems: list[RemovedItem]
