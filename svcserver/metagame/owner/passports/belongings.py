"""Belongings in a passport (items, currency, loadout): export and import.

An import adds items until the character has as many as the passport lists. It removes no
items. If the allowed items and currencies together would exceed the character's limits, none is
imported. A loadout is imported slot by slot. The import reports what it leaves out.
"""

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import Connection

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.metagame.belongings.currency.rules import UPPER
from svcserver.metagame.belongings.inventory.rules import By
from svcserver.metagame.belongings.inventory.store import SqlInventory, inventory_of
from svcserver.metagame.belongings.items import Stacked, Transaction
from svcserver.metagame.belongings.loadouts import rules as loadouts
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from svcserver.metagame.owner.passports import rules

REASON = "passport"


def carried(tx: Connection, character_id: CharacterId) -> dict[str, Any]:
    """Return a character's belongings in the form that passports contain."""
    store = SqlLoadouts(tx)
    loadout = store.find(character_id)
    belongings: dict[str, Any] = {"inventory": json.Fragment(inventory_of(tx, character_id))}
    if loadout is not None:
        elements = store.elements(loadout)
        belongings["loadout"] = {
            "slots": loadout.character_slots,
            "active": loadout.active_index,
            "elements": {name: json.Fragment(data) for name, data in elements.items()},
        }
    return belongings


@frozen
class Import:
    """Imports the belongings of a passport's character into a character of this host."""

    tx: Connection
    account_id: AccountId
    terms: rules.Terms
    taken: rules.Taken
    at: float

    def take(self, character_id: CharacterId, name: str, carried_by: rules.Carried) -> None:
        """Import items, currency and loadout; ``name`` is the character's name in messages."""
        items, loadout = carried_by.items, carried_by.loadout
        if isinstance(items, rules.Unreadable):
            self._leave(f"the items of {name}: {items.why}")
        elif items is not None:
            self._take_items(character_id, name, items)
        if loadout is not None:
            self._take_loadout(character_id, name, loadout)

    def _take_items(
        self, character_id: CharacterId, name: str, carried_items: rules.CarriedItems
    ) -> None:
        store = SqlInventory(self.tx, self.terms.policy.log_bytes)
        items = self._missing(store, character_id, self._allowed(carried_items, name))
        deal = Transaction(
            None,
            REASON,
            lambda _: b"",
            added={stack.catalog_id: stack.quantity for stack in items.stacks},
            extras={stack.catalog_id: stack.extra for stack in items.stacks if stack.extra},
            add=items.instances,
        )
        policy = self.terms.policy
        try:
            store.transact(self.account_id, character_id, deal, By.ADMIN, policy, self.at)
        except Refusal as error:
            self._leave(f"the items of {name}: {error.message}")
            return
        currencies = sum(map(is_currency, items.stacks))
        self.taken.currencies += currencies
        self.taken.items += len(items.stacks) - currencies + len(items.instances)

    def _allowed(self, items: rules.CarriedItems, name: str) -> rules.CarriedItems:
        """Return the items that the import terms allow."""
        stacks, instances = items.stacks, items.instances
        money = [stack for stack in stacks if is_currency(stack)]
        goods = [stack for stack in stacks if not is_currency(stack)]
        if not self.terms.takes("currency") and money:
            self._leave(f"{len(money)} currencies of {name}, which this host does not import")
            money = []
        if not self.terms.takes("inventory") and (goods or instances):
            count = len(goods) + len(instances)
            self._leave(f"{count} items of {name}, which this host does not import")
            goods, instances = [], []
        return rules.CarriedItems([*money, *goods], instances)

    def _missing(
        self, store: SqlInventory, character_id: CharacterId, items: rules.CarriedItems
    ) -> rules.CarriedItems:
        """Return the items that the character lacks; of each stack, only the missing quantity."""
        held = store.stacks(character_id, _names(stack.catalog_id for stack in items.stacks))
        own = store.instances(character_id, _names(item.instance_id for item in items.instances))
        stacks: dict[str, Stacked] = {}
        for stack in items.stacks:
            before = held.get(stack.catalog_id)
            more = stack.quantity - (before.quantity if before is not None else 0)
            if more > 0:
                stacks[stack.catalog_id] = evolve(stack, quantity=more)
        instances = {
            item.instance_id: item for item in items.instances if item.instance_id not in own
        }
        return rules.CarriedItems(list(stacks.values()), list(instances.values()))

    def _take_loadout(
        self, character_id: CharacterId, name: str, loadout: rules.CarriedLoadout
    ) -> None:
        if not self.terms.takes("loadouts"):
            self._leave(f"the loadout of {name}, which this host does not import")
            return
        store, real = SqlLoadouts(self.tx), self.terms.real(self.account_id)
        before = store.own(self.account_id, character_id)
        if real:
            slots = min(loadout.slots, loadouts.MAX_CHARACTER_SLOTS)
            before = evolve(before, character_slots=max(before.character_slots, slots))
        taken: dict[str, bytes] = {}
        for index, value in loadout.elements.items():
            try:
                element = loadouts.element(index, before.slots if real else 1)
                taken[element] = self._element(value)
            except Malformed as why:
                self._leave(f"slot {index[:16]} of the loadout of {name}: {why.message}")
        if not taken:
            return
        if real and loadout.active < before.slots:
            before = evolve(before, active_index=loadout.active)
        after = evolve(before, version=before.version + 1)
        store.save(after, taken, int(self.at * 1000), REASON)
        self.taken.loadouts += 1

    def _element(self, read: bytes | rules.Unreadable) -> bytes:
        """Return a loadout element in the form in which it is stored; raises Malformed."""
        if isinstance(read, rules.Unreadable):
            raise Malformed(read.why)
        if len(read) > self.terms.loadout_bytes:
            raise Malformed("data is too large")
        return read

    def _leave(self, what: str) -> None:
        self.taken.left_out.append(what)


def is_currency(stack: Stacked) -> bool:
    """Return whether a stack is a currency, by the prefix of its catalogue id."""
    return stack.catalog_id.upper().startswith(UPPER)


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
