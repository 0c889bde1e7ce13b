"""Rules of inventory changes, for clients, game servers and the store alike.

Spec: 1 §2 Inventory transaction, §4 Characters, inventory, currency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from svcserver.kernel.digits import MAX_VERSION, MAX_WHOLE
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing
from svcserver.metagame.belongings.items import (
    NOTHING,
    Instance,
    Removal,
    Size,
    Stacked,
    Transaction,
    stack_bytes,
)
from svcserver.metagame.settings import Settings

if TYPE_CHECKING:
    from svcserver.metagame.belongings.inventory.store import SqlInventory

MOST = Size(20_000, 8 << 20)
LOG_BYTES = 64 << 20  # of the item log, per account


class By(StrEnum):
    """Who made a change; the value is stored in the item log."""

    CLIENT = "client"
    GAME_SERVER = "gameserver"
    STORE = "store"
    ADMIN = "admin"


@frozen
class Policy:
    """INVENTORY_REFUSE_OVERSPEND, INVENTORY_REPORT_REMOVALS, and the bounds of a character."""

    refuse_overspend: bool = False
    report_removals: bool = True
    most: Size = MOST
    log_bytes: int = LOG_BYTES

    def grown(self, held: Size, growth: Size) -> Size:
        """The size after a change; raises Conflict when it grows beyond the bounds.

        A character that is beyond them already (they were lowered) may still shrink.
        """
        after = held + growth
        if (growth.items > 0 and after.items > self.most.items) or (
            growth.bytes > 0 and after.bytes > self.most.bytes
        ):
            raise Conflict("this character holds as much as one may")
        return after


@define  # not frozen: one is made for every transaction
class Holder:
    """A character's account and size, and the stored answer to a repeated transaction."""

    account_id: AccountId
    answer: bytes | None = field(default=None, repr=False)
    size: Size = NOTHING


@define  # not frozen, as the next one: both are made for every transaction
class StackChanges:
    """What of stacks was asked for, and what it came to, by catalogue id."""

    added: Mapping[str, int]
    taken: Mapping[str, int]
    totals: Mapping[str, int]


@define
class Changes:
    """What a transaction did; of instanced items their ids."""

    stacks: StackChanges | None = None
    removed: Sequence[str] = ()
    saved: Sequence[str] = ()
    made: Sequence[str] = ()


@define  # not frozen: one is made for every transaction
class Note:
    """A row of the item log; with the answer it serves to answer a repeat."""

    character_id: CharacterId
    transaction_id: str | None
    at_ms: int
    by: By
    source: str
    changes: Changes = field(repr=False)
    answer: bytes | None = field(default=None, repr=False)


@define  # not frozen: one is made for every transaction
class Done:
    """A transaction's result; ``oddities`` (overspent, removed but not held) are for the log."""

    answer: bytes = field(repr=False)
    oddities: tuple[str, ...] = ()


def transact(
    inventory: SqlInventory,
    account_id: AccountId,
    character_id: CharacterId | None,
    deal: Transaction,
    by: By,
    policy: Policy,
    now: float,
) -> Done:
    """Apply ``deal`` completely, or refuse it. ``now`` in epoch seconds.

    A repeated transaction id gets the stored answer and changes nothing, whatever it
    lists. Raises Forbidden for a character that is not the account's, Conflict for an
    older version, for more than a character may hold or (where the policy says so) an
    overspend, Malformed for a total that no client could hold.
    """
    owned, holder = _owned(inventory, account_id, character_id, deal.transaction_id)
    if holder.answer is not None:
        return Done(holder.answer)
    stacks = _Stacks.plan(inventory, owned, deal, policy)
    if deal.is_empty:
        return Done(deal.answer({}))
    instances = _Instances.plan(inventory, owned, deal)
    answer = deal.answer(stacks.report(policy))
    _grow(inventory, owned, holder.size, stacks.growth() + instances.growth(), policy)
    stacks.carry_out(inventory, owned)
    instances.carry_out(inventory, owned)
    items = instances.changes
    changes = Changes(stacks.changes(), items.removed, items.saved, items.made)
    at_ms = int(now * 1000)
    kept = None if deal.transaction_id is None else answer  # without an id there are no repeats
    inventory.note(Note(owned, deal.transaction_id, at_ms, by, deal.source, changes, kept))
    return Done(answer, (*stacks.oddities, *instances.oddities))


def update_instance(
    inventory: SqlInventory,
    account_id: AccountId,
    character_id: CharacterId | None,
    item: Instance,
    by: By,
    policy: Policy,
    now: float,
) -> Instance:
    """Save one held item; returns the stored item.

    Raises Forbidden, Missing (no item with both ids), Conflict (version not greater, or
    more than a character may hold).
    """
    owned, holder = _owned(inventory, account_id, character_id, None)
    held = inventory.instances(owned, [item.instance_id]).get(item.instance_id)
    if held is None or held.catalog_id != item.catalog_id:
        raise Missing("this character holds no such item")
    if not is_newer(held, item):
        return held
    _grow(inventory, owned, holder.size, item.size - held.size, policy)
    inventory.put_instances(owned, [item])
    inventory.note(Note(owned, None, int(now * 1000), by, "", Changes(saved=[item.instance_id])))
    return item


def is_newer(held: Instance, sent: Instance) -> bool:
    """Whether ``sent`` replaces ``held``; False when both are stateless at version 0.

    Raises Conflict for a version that is not greater than a stored one, or leaves no room for
    later ones. A stored version without such room counts as none.
    """
    if sent.version is not None and sent.version > MAX_VERSION:
        raise Conflict("this version is too high: no newer one would fit above it")
    if held.version is None or held.version >= MAX_VERSION:
        return True
    if held.stateless and sent.stateless and held.version == 0:
        return False
    if sent.version is None or sent.version <= held.version:
        raise Conflict("this version of the item or a newer one is stored")
    return True


def _owned(
    inventory: SqlInventory,
    account_id: AccountId,
    character_id: CharacterId | None,
    transaction_id: str | None,
) -> tuple[CharacterId, Holder]:
    if not isinstance(character_id, str) or "\0" in character_id:
        raise Forbidden("not one of this account's characters")
    holder = inventory.holder(character_id, transaction_id)
    if holder is None or holder.account_id != account_id:
        raise Forbidden("not one of this account's characters")
    return character_id, holder


def _grow(
    inventory: SqlInventory, character_id: CharacterId, held: Size, growth: Size, policy: Policy
) -> None:
    """Update the stored size; raises Conflict, before anything else is written."""
    if growth.items or growth.bytes:
        inventory.put_size(character_id, policy.grown(held, growth))


@define
class _Stacks:
    """The stacks of a transaction: ids that are added first, then those only removed."""

    before: dict[str, Stacked]
    added: dict[str, int]
    removed: dict[str, int]
    extras: dict[str, bytes]
    totals: dict[str, int] = field(factory=dict)
    oddities: list[str] = field(factory=list)

    @classmethod
    def plan(
        cls, inventory: SqlInventory, character_id: CharacterId, deal: Transaction, policy: Policy
    ) -> _Stacks:
        added, removed = _sums(deal.add_stacked), _sums(deal.remove_stacked)
        touched = list({**added, **removed})
        extras = {one.catalog_id: one.extra for one in deal.add_stacked if one.extra is not None}
        before = inventory.stacks(character_id, touched) if touched else {}
        plan = cls(before, added, removed, extras)
        for one in touched:
            held = before[one].quantity if one in before else 0
            total = held + added.get(one, 0) - removed.get(one, 0)
            if total < 0:
                if policy.refuse_overspend:
                    raise Conflict("more is spent than is held")
                plan.oddities.append(f"overspent {one} by {-total}")
            if total > MAX_WHOLE:
                raise Malformed("a stack cannot grow that large")
            plan.totals[one] = total if total > 0 else 0
        return plan

    def report(self, policy: Policy) -> Mapping[str, int]:
        """Final totals; those of stacks only removed where the policy says so."""
        return (
            self.totals if policy.report_removals else {one: self.totals[one] for one in self.added}
        )

    def growth(self) -> Size:
        """By how much the stacks grow; negative where they shrink."""
        items = size = 0  # one Size of them all: most transactions are of several stacks
        for one, total in self.totals.items():
            before = self.before.get(one)
            if before is None:
                if total:
                    items += 1
                    size += stack_bytes(one, self.extras.get(one))
            elif not total:
                items -= 1
                size -= stack_bytes(one, before.extra)
            elif one in self.extras:
                size += len(self.extras[one]) - len(before.extra or b"")
        return Size(items, size) if items or size else NOTHING

    def carry_out(self, inventory: SqlInventory, character_id: CharacterId) -> None:
        kept, gone = [], []
        for one, total in self.totals.items():
            before, extra = self.before.get(one), self.extras.get(one)
            if not total:
                if before is not None:
                    gone.append(one)
            elif before is None or extra is not None or total != before.quantity:
                kept.append(Stacked(one, total, extra))
        if kept:
            inventory.put_stacks(character_id, kept)
        if gone:
            inventory.drop_stacks(character_id, gone)

    def changes(self) -> StackChanges | None:
        """The stacks in the item log: requested changes and resulting totals."""
        return StackChanges(self.added, self.removed, self.totals) if self.totals else None


@define
class _Instances:
    """The instanced items of a transaction: removed, then saved, then added, in this order."""

    before: dict[str, Instance] = field(factory=dict)
    put: dict[str, Instance] = field(factory=dict)
    dropped: dict[str, None] = field(factory=dict)
    changes: Changes = field(factory=Changes)
    oddities: list[str] = field(factory=list)

    @classmethod
    def plan(
        cls, inventory: SqlInventory, character_id: CharacterId, deal: Transaction
    ) -> _Instances:
        if not (deal.remove or deal.save or deal.add):
            return _NO_INSTANCES
        plan = cls()
        removed = [one.instance_id for one in deal.remove]
        saved, made = ([one.instance_id for one in part] for part in (deal.save, deal.add))
        touched = list(dict.fromkeys((*removed, *saved, *made)))
        held = inventory.instances(character_id, touched)
        plan.before = dict(held)
        for gone in deal.remove:
            plan._remove(held, gone)
        for item in (*deal.save, *deal.add):
            before = held.get(item.instance_id)
            if before is None or is_newer(before, item):
                held[item.instance_id] = plan.put[item.instance_id] = item
        plan.changes = Changes(None, removed, saved, made)
        return plan

    def _remove(self, held: dict[str, Instance], gone: Removal) -> None:
        before = held.pop(gone.instance_id, None)
        if before is None:
            self.oddities.append(f"removed {gone.instance_id}, which is not held")
            return
        if (
            gone.version is not None
            and before.version is not None
            and gone.version < before.version
        ):
            raise Conflict("a newer version of the item is stored")
        self.dropped[gone.instance_id] = None

    def growth(self) -> Size:
        """By how much the instanced items grow; negative where they shrink."""
        grown = NOTHING
        if not self.put and not self.dropped:
            return grown
        for one in self.put.values():
            grown += one.size
        for name in self.dropped.keys() | self.put.keys():
            if name in self.before:
                grown -= self.before[name].size
        return grown

    def carry_out(self, inventory: SqlInventory, character_id: CharacterId) -> None:
        if not self.put and not self.dropped:
            return
        gone = [one for one in self.dropped if one not in self.put]
        if gone:
            inventory.drop_instances(character_id, gone)
        if self.put:
            inventory.put_instances(character_id, list(self.put.values()))


_NO_INSTANCES = _Instances()  # of most transactions; only ``plan`` changes one, and its own


def _sums(items: list[Stacked]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in items:
        sums[one.catalog_id] = sums.get(one.catalog_id, 0) + one.quantity
    return sums


def policy_of(settings: Settings) -> Policy:
    """What the settings say of inventories."""
    most = Size(settings.inventory_max_items, settings.inventory_max_bytes)
    refuse, report = settings.inventory_refuse_overspend, settings.inventory_report_removals
    return Policy(refuse, report, most, settings.item_log_max_bytes)
