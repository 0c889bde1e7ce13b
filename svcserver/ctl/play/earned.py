"""What a player must own and whom they know, counted from acknowledged answers only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

CURRENCY = "CURRENCY_NOTES"
SEASON = "season09b"
PERSISTENT = "persistent"


@frozen
class Item:
    """An item that stands for itself, not one of a stack."""

    catalog_id: str
    version: int
    data: str | None


@define
class Earned:
    """A player's belongings and progress as the host acknowledged them."""

    stacks: Counter[str] = field(factory=Counter)
    items: dict[str, Item] = field(factory=dict)  # by instance id
    tracks: Counter[str] = field(factory=Counter)
    objectives: dict[str, int] = field(factory=dict)
    bounties: dict[str, int] = field(factory=dict)  # id to version
    slots: dict[str, Any] = field(factory=dict)  # loadout slots by number, as saved
    character_slots: int = 1
    active_slot: int = 0
    hunt_pass: str | None = None
    transactions: int = 0  # that changed something

    def add(self, stacks: Mapping[str, int], items: Mapping[str, Item]) -> None:
        """Count a transaction that was acknowledged: the host must hold it from now on."""
        self.stacks.update(stacks)
        self.items.update(items)
        self.transactions += 1

    def spend(self, catalog_id: str, quantity: int) -> None:
        """Count an acknowledged removal; an empty stack is removed."""
        self.stacks[catalog_id] -= quantity
        if not self.stacks[catalog_id]:
            del self.stacks[catalog_id]
        self.transactions += 1


@define
class Relations:
    """A player's friends (account ids), guild (its id and members) and slayer links."""

    friends: set[str] = field(factory=set)
    guild: str | None = None
    fellows: set[str] = field(factory=set)  # the guild's members, oneself among them
    links: dict[str, str] = field(factory=dict)  # account to link id
