"""The rules of inventory changes, which apply to clients, game servers and the shop.

Spec: 1 §2 "Inventory transaction"; 1 §4 "Characters, inventory, currency".
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from attrs import define, field, frozen

from svcserver.kernel.digits import MAX_VERSION, MAX_WHOLE
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed
from svcserver.metagame.belongings.items import (
    NOTHING,
    Instance,
    Size,
    Stacked,
    Transaction,
    stack_bytes,
)
from svcserver.metagame.settings import MetagameSettings

MOST = Size(20_000, 8 << 20)
LOG_BYTES = 64 << 20  # maximum size of the item log per account


class By(StrEnum):
    """The kind of caller that changes an inventory; the item log stores this value."""

    CLIENT = "client"
    GAME_SERVER = "gameserver"
    STORE = "store"
    ADMIN = "admin"


@frozen
class Policy:
    """The owner's settings for inventory changes, and the limits of a character.

    The settings are INVENTORY_REFUSE_OVERSPEND and INVENTORY_REPORT_REMOVALS.
    """

    refuse_overspend: bool = False
    report_removals: bool = True
    most: Size = MOST
    log_bytes: int = LOG_BYTES

    def grown(self, held: Size, growth: Size) -> Size:
        """Return the size after a change; raises Conflict if the inventory would exceed the limits.

        An inventory above the limits (because the owner lowered them) may still shrink.
        """
        after = held + growth
        if (growth.items > 0 and after.items > self.most.items) or (
            growth.bytes > 0 and after.bytes > self.most.bytes
        ):
            raise Conflict("this character's inventory is full")
        return after


@define  # not frozen, for speed: every transaction creates one
class InventoryHolder:
    """A character with its account and inventory size.

    If the request repeats an earlier transaction, ``answer`` is the stored reply.
    """

    character_id: CharacterId
    account_id: AccountId
    answer: bytes | None = field(default=None, repr=False)
    size: Size = NOTHING


@define  # not frozen, for speed: every transaction creates one
class Note:
    """A row of the item log, which records one transaction.

    ``changes`` may have the key ``stacks``, with ``added``, ``taken`` and the final ``totals``. It
    may also have ``removed``, ``saved`` and ``made``, which are lists of instance ids. ``answer``
    is the reply; it is sent again if the request is repeated.
    """

    character_id: CharacterId
    transaction_id: str | None
    at_ms: int
    by: By
    source: str
    changes: Mapping[str, Any] = field(repr=False)
    answer: bytes | None = field(default=None, repr=False)


@define  # not frozen, for speed: every transaction creates one
class Done:
    """A transaction's result, with oddities to log.

    An oddity is an overspent stack, or the removal of an item that was not held.
    """

    answer: bytes = field(repr=False)
    oddities: Sequence[str] = ()


@define  # not frozen, for speed: every transaction creates one
class InventoryPlan:
    """The rows that a transaction writes and deletes, and the new total of each affected stack."""

    totals: dict[str, int] = field(factory=dict)
    stacks: list[Stacked] = field(factory=list)
    dropped_stacks: list[str] = field(factory=list)
    instances: dict[str, Instance] = field(factory=dict)
    dropped_instances: list[str] = field(factory=list)
    growth: Size = NOTHING
    changes: dict[str, Any] = field(factory=dict)
    oddities: list[str] = field(factory=list)

    def report(self, deal: Transaction, policy: Policy) -> Mapping[str, int]:
        """Return the stacks' totals for the reply.

        If the policy does not report removals, only the stacks in ``deal.added`` are included.
        """
        if policy.report_removals:
            return self.totals
        return {catalog_id: self.totals[catalog_id] for catalog_id in deal.added}


def plan(
    deal: Transaction,
    stacks: Mapping[str, Stacked],
    instances: Mapping[str, Instance],
    policy: Policy,
) -> InventoryPlan:
    """Return the effect of the transaction ``deal`` on a character's inventory.

    ``stacks`` and ``instances`` are the held items that ``deal`` affects. Raises Conflict for an
    outdated version. If the policy refuses overspending, an overspent stack also raises Conflict.
    Raises Malformed if a total would be too large for the client.
    """
    result = InventoryPlan()
    _plan_stacks(result, deal, stacks, policy)
    if deal.remove or deal.save or deal.add:
        _plan_instances(result, deal, instances)
    return result


def check_owner(holder: InventoryHolder | None, account_id: AccountId) -> InventoryHolder:
    """Return ``holder``; raises Forbidden if it is None or belongs to another account."""
    if holder is None or holder.account_id != account_id:
        raise Forbidden("not one of this account's characters")
    return holder


def is_newer(held: Instance, sent: Instance) -> bool:
    """Return whether ``sent`` replaces ``held``.

    Returns False if neither item has data and the stored version is 0. Raises Conflict if the sent
    version is too high, or not higher than the stored version. Once the stored version is
    MAX_VERSION, any version replaces it.
    """
    if sent.version is not None and sent.version > MAX_VERSION:
        raise Conflict("this version is too high: no higher version would be possible")
    if held.version is None or held.version >= MAX_VERSION:
        return True
    if held.stateless and sent.stateless and held.version == 0:
        return False
    if sent.version is None or sent.version <= held.version:
        raise Conflict("this version of the item or a newer one is stored")
    return True


def _plan_stacks(
    result: InventoryPlan, deal: Transaction, held: Mapping[str, Stacked], policy: Policy
) -> None:
    items = size = 0  # summed here, to create only one Size for all stacks
    for name in deal.catalog_ids:
        before, extra = held.get(name), deal.extras.get(name)
        total = 0 if before is None else before.quantity
        total += deal.added.get(name, 0) - deal.removed.get(name, 0)
        if total < 0:
            total = _overspend(result, name, -total, policy)
        elif total > MAX_WHOLE:
            raise Malformed("the stack would be too large")
        result.totals[name] = total
        if before is None:
            if total:
                items += 1
                size += stack_bytes(name, extra)
                result.stacks.append(Stacked(name, total, extra))
        elif not total:
            items -= 1
            size -= stack_bytes(name, before.extra)
            result.dropped_stacks.append(name)
        elif extra is not None or total != before.quantity:
            if extra is not None:
                size += len(extra) - len(before.extra or b"")
            result.stacks.append(Stacked(name, total, extra))
    if result.totals:
        result.growth = Size(items, size)
        stacks = {"added": deal.added, "taken": deal.removed, "totals": result.totals}
        result.changes["stacks"] = stacks


def _overspend(result: InventoryPlan, name: str, lacking: int, policy: Policy) -> int:
    if policy.refuse_overspend:
        raise Conflict("the stack is too small for this removal")
    result.oddities.append(f"overspent {name} by {lacking}")
    return 0


def _plan_instances(
    result: InventoryPlan, deal: Transaction, before: Mapping[str, Instance]
) -> None:
    """Plan the changes to instanced items: first removals, then updates, then additions."""
    held = dict(before)
    for removal in deal.remove:
        removed = held.pop(removal.instance_id, None)
        if removed is None:
            result.oddities.append(f"removed {removal.instance_id}, which is not held")
        elif removal.is_outdated(removed):
            raise Conflict("a newer version of the item is stored")
    dropped = [name for name in before if name not in held]
    for item in (*deal.save, *deal.add):
        name, current = item.instance_id, held.get(item.instance_id)
        if current is None or is_newer(current, item):
            held[name] = result.instances[name] = item
    for item in result.instances.values():
        result.growth += item.size
    for name in {*dropped, *result.instances} & before.keys():
        result.growth -= before[name].size
    result.dropped_instances = [name for name in dropped if name not in result.instances]
    for word, items in (("removed", deal.remove), ("saved", deal.save), ("made", deal.add)):
        if items:
            result.changes[word] = [item.instance_id for item in items]


def policy_of(settings: MetagameSettings) -> Policy:
    """Return the inventory policy from the settings."""
    most = Size(settings.inventory_max_items, settings.inventory_max_bytes)
    refuse, report = settings.inventory_refuse_overspend, settings.inventory_report_removals
    return Policy(refuse, report, most, settings.item_log_max_bytes)
