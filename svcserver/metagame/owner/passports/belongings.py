"""What a character carries in a passport: items, currency and loadout; read here, taken elsewhere.

Items are added up to what the passport says, never taken away. Each part is taken whole or left out
with a sentence: a character that would hold too much gets none of the items, and keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import Connection

from svcserver.kernel import json
from svcserver.kernel.digits import MAX_WHOLE
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.metagame.belongings.currency.rules import UPPER
from svcserver.metagame.belongings.inventory.rules import By, transact
from svcserver.metagame.belongings.inventory.store import SqlInventory, inventory_of
from svcserver.metagame.belongings.items import Instance, Stacked, Transaction
from svcserver.metagame.belongings.loadouts import rules as loadouts
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from svcserver.metagame.owner.passports.rules import Taken, Terms

REASON = "passport"
MOST_ITEMS = 20_000  # of a character


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

    def take(self, character_id: CharacterId, name: str, said: Mapping[str, Any]) -> None:
        """Take items, currency and loadout of the passport's character called ``name``."""
        inventory, loadout = said.get("inventory"), said.get("loadout")
        if isinstance(inventory, dict):
            self._take_items(character_id, name, inventory)
        if isinstance(loadout, dict):
            self._take_loadout(character_id, name, loadout)

    def _take_items(self, character_id: CharacterId, name: str, said: Mapping[str, Any]) -> None:
        store = SqlInventory(self.tx, self.terms.policy.log_bytes)
        try:
            stacks = [_stack(one) for one in _objects(said, "stackedItems")]
            items = [_instance(one) for one in _objects(said, "instancedItems")]
            asked = Transaction(None, REASON, stacks, [], items, [], [], lambda _: b"")
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

    def _take_loadout(self, character_id: CharacterId, name: str, said: Mapping[str, Any]) -> None:
        elements = said.get("elements")
        if not isinstance(elements, dict) or not elements:
            return
        if not self.terms.takes("loadouts"):
            self._leave(f"the loadout of {name}, which this host takes from nobody")
            return
        store, real = SqlLoadouts(self.tx), self.terms.real(self.account_id)
        before = loadouts.own(store, self.account_id, character_id)
        slots, active = _count(said.get("slots")), _count(said.get("active"))
        if real:
            slots = min(slots, loadouts.MAX_CHARACTER_SLOTS)
            before = evolve(before, character_slots=max(before.character_slots, slots))
        taken: dict[str, bytes] = {}
        for index, value in list(elements.items())[: loadouts.MAX_CHARACTER_SLOTS + 2]:
            try:
                element = loadouts.element(index, before.slots if real else 1)
                taken[element] = self._element(element, value)
            except Malformed as why:
                self._leave(f"slot {index[:16]} of the loadout of {name}: {why.message}")
        if not taken:
            return
        if real and active < before.slots:
            before = evolve(before, active_index=active)
        after = evolve(before, version=before.version + 1)
        store.save(after, taken, int(self.at * 1000), REASON)
        self.taken.loadouts += 1

    def _element(self, name: str, value: Any) -> bytes:
        """An element as it is stored, a slot with its own number; raises Malformed."""
        if not isinstance(value, dict):
            raise Malformed("it is no object")
        text = _text(value if name == loadouts.PERSISTENT else {**value, "slot_index": int(name)})
        if len(text) > self.terms.loadout_bytes:
            raise Malformed("data is too large")
        return text

    def _leave(self, what: str) -> None:
        self.taken.left_out.append(what)


def is_currency(stack: Stacked) -> bool:
    """Whether a stack is money: on the balance sheet, or of a kind with those that are."""
    return stack.catalog_id.upper().startswith(UPPER)


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0


def _objects(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects; raises Malformed."""
    found = said.get(name)
    if not isinstance(found, list) or len(found) > MOST_ITEMS:
        raise Malformed(f"{name} is no list of {MOST_ITEMS} at most")
    if not all(isinstance(one, dict) for one in found):
        raise Malformed(f"{name} is no list of objects")
    return found


def _stack(said: dict[str, Any]) -> Stacked:
    """A stack as ``inventory_of`` shows it; raises Malformed."""
    quantity = said.get("quantity")
    if type(quantity) is not int or not 0 <= quantity <= MAX_WHOLE:
        raise Malformed("a stack has no quantity")
    more = {key: one for key, one in said.items() if key not in ("catalogId", "quantity")}
    return Stacked(_name(said, "catalogId"), quantity, _text(more) if more else None)


def _instance(said: dict[str, Any]) -> Instance:
    """An item as ``inventory_of`` shows it; raises Malformed."""
    data, version = said.get("itemData"), said.get("updateVersion")
    if not isinstance(data, str | None) or (version is not None and type(version) is not int):
        raise Malformed("an item has data or a version that is none")
    if version is not None and not 0 <= version <= MAX_WHOLE:
        raise Malformed("an item has a version that is none")
    names = _name(said, "instanceId"), _name(said, "catalogId")
    return Instance(*names, 0 if data is None else version, data is None, _text(said))


def _text(value: dict[str, Any]) -> bytes:
    """As JSON; raises Malformed for what nests too deep to be written."""
    try:
        return json.dump(value)
    except TypeError:
        raise Malformed("it nests too deep") from None


def _name(said: dict[str, Any], name: str) -> str:
    found = said.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= 256 or "\0" in found:
        raise Malformed(f"an item has no {name}")
    return found
