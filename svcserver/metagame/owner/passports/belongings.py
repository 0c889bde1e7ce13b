"""What a character carries in a passport (items, currency, loadout): gathered, and taken in.

Items are added up to what the passport says, never taken away. Each part is taken whole or left out
with a sentence: a character that would hold too much gets none of the items, and keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import Connection

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.metagame.belongings.currency.rules import UPPER
from svcserver.metagame.belongings.inventory.rules import By, transact
from svcserver.metagame.belongings.inventory.store import SqlInventory, inventory_of
from svcserver.metagame.belongings.items import Instance, Stacked, Transaction
from svcserver.metagame.belongings.loadouts import rules as loadouts
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from svcserver.metagame.owner.passports.rules import (
    Carried,
    CarriedLoadout,
    Items,
    Taken,
    Terms,
    Unreadable,
)

REASON = "passport"


def carried(tx: Connection, character_id: CharacterId) -> dict[str, Any]:
    """What a passport says of a character besides its document."""
    store = SqlLoadouts(tx)
    loadout = store.find(character_id)
    found: dict[str, Any] = {"inventory": json.Fragment(inventory_of(tx, character_id))}
    if loadout is not None:
        elements = store.elements(loadout)
        found["loadout"] = {
            "slots": loadout.character_slots,
            "active": loadout.active_index,
            "elements": {name: json.Fragment(data) for name, data in elements.items()},
        }
    return found


@frozen
class Import:
    """Takes what one character carries, for a character of ``account_id``."""

    tx: Connection
    account_id: AccountId
    terms: Terms
    taken: Taken
    at: float

    def take(self, character_id: CharacterId, name: str, carried_by: Carried) -> None:
        """Take items, currency and loadout of the passport's character, called ``name`` here."""
        items, loadout = carried_by.items, carried_by.loadout
        if isinstance(items, Unreadable):
            self._leave(f"the items of {name}: {items.why}")
        elif items is not None:
            self._take_items(character_id, name, items)
        if loadout is not None:
            self._take_loadout(character_id, name, loadout)

    def _take_items(self, character_id: CharacterId, name: str, items: Items) -> None:
        store = SqlInventory(self.tx, self.terms.policy.log_bytes)
        stacks, instances = list(items.stacks), list(items.instances)
        asked = Transaction(None, REASON, stacks, [], instances, [], [], lambda _: b"")
        try:
            wanted = self._missing(store, character_id, self._allowed(asked, name))
            if not wanted.is_empty:
                to = self.account_id, character_id
                transact(store, *to, wanted, By.ADMIN, self.terms.policy, self.at)
        except Refusal as why:
            self._leave(f"the items of {name}: {why.message}")
            return
        money = [one for one in wanted.add_stacked if is_currency(one)]
        self.taken.currencies += len(money)
        self.taken.items += len(wanted.add_stacked) - len(money) + len(wanted.add)

    def _allowed(self, asked: Transaction, name: str) -> Transaction:
        """What of the items is let in."""
        stacks, items = asked.add_stacked, asked.add
        money = [one for one in stacks if is_currency(one)]
        goods = [one for one in stacks if not is_currency(one)]
        if not self.terms.takes("currency") and money:
            self._leave(f"{len(money)} currencies of {name}, which this host takes from nobody")
            money = []
        if not self.terms.takes("inventory") and (goods or items):
            count = len(goods) + len(items)
            self._leave(f"{count} items of {name}, which this host takes from nobody")
            goods, items = [], []
        return evolve(asked, add_stacked=[*money, *goods], add=items)

    def _missing(
        self, store: SqlInventory, character_id: CharacterId, asked: Transaction
    ) -> Transaction:
        """What the character does not hold yet; of a stack what is left to the passport's count."""
        held = store.stacks(character_id, _names(one.catalog_id for one in asked.add_stacked))
        own = store.instances(character_id, _names(one.instance_id for one in asked.add))
        stacks: dict[str, Stacked] = {}
        for one in asked.add_stacked:
            before = held.get(one.catalog_id)
            more = one.quantity - (before.quantity if before is not None else 0)
            if more > 0:
                stacks[one.catalog_id] = evolve(one, quantity=more)
        items: dict[str, Instance] = {
            one.instance_id: one for one in asked.add if one.instance_id not in own
        }
        return evolve(asked, add_stacked=list(stacks.values()), add=list(items.values()))

    def _take_loadout(self, character_id: CharacterId, name: str, said: CarriedLoadout) -> None:
        if not self.terms.takes("loadouts"):
            self._leave(f"the loadout of {name}, which this host takes from nobody")
            return
        store, real = SqlLoadouts(self.tx), self.terms.real(self.account_id)
        before = loadouts.own(store, self.account_id, character_id)
        if real:
            slots = min(said.slots, loadouts.MAX_CHARACTER_SLOTS)
            before = evolve(before, character_slots=max(before.character_slots, slots))
        taken: dict[str, bytes] = {}
        for index, value in said.elements.items():
            try:
                element = loadouts.element(index, before.slots if real else 1)
                taken[element] = self._element(value)
            except Malformed as why:
                self._leave(f"slot {index[:16]} of the loadout of {name}: {why.message}")
        if not taken:
            return
        if real and said.active < before.slots:
            before = evolve(before, active_index=said.active)
        after = evolve(before, version=before.version + 1)
        store.save(after, taken, int(self.at * 1000), REASON)
        self.taken.loadouts += 1

    def _element(self, read: bytes | Unreadable) -> bytes:
        """An element as it is stored; raises Malformed."""
        if isinstance(read, Unreadable):
            raise Malformed(read.why)
        if len(read) > self.terms.loadout_bytes:
            raise Malformed("data is too large")
        return read

    def _leave(self, what: str) -> None:
        self.taken.left_out.append(what)


def is_currency(stack: Stacked) -> bool:
    """Whether a stack is money: on the balance sheet, or of a kind with those that are."""
    return stack.catalog_id.upper().startswith(UPPER)


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
