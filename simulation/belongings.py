"""The players' actions on characters and inventories."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from simulation.history import History
from simulation.outcomes import outcome
from simulation.player import CURRENCY, SimPlayer, together
from svcserver.players import requests
from svcserver.players.http import Reply

Ask = Callable[[str, str, Any], Awaitable[Reply]]


async def load(me: SimPlayer, dice: random.Random) -> None:
    """Read the character, as the client does after its login."""
    at_least = me.history.saves.acked.get(me.character, 0)
    reply = await me.make_request("GET", "/character", patient=True)
    if reply.status != 200 or not reply.json:
        return
    character = reply.json[0]
    me.character = str(character["id"])
    version, data = int(character["updateVersion"]), str(character["data"])
    me.version = max(me.version, version)
    if version:
        me.history.saves.compare_save(me.character, version, data, at_least)


async def save(me: SimPlayer, dice: random.Random, *, lose: bool = False) -> None:
    """Save the character."""
    if not me.character:
        await load(me, dice)
        return
    size = dice.choice((200, 900, 3_000, 9_000))
    me.version += 1
    version = me.version
    data = json.dumps({"Body": "x" * size, "By": me.name, "V": version, "Dice": dice.random()})
    me.history.saves.sent(me.character, version, data)
    character = me.character

    def may(status: int) -> bool:
        return status == 409 and me.history.saves.rivalled(character, version, data)

    reply = await me.make_request(*requests.save(character, version, data), lose=lose, may=may)
    if reply.status == 200:
        me.history.saves.answered(character, version, data)
        if reply.json.get("data") != data or reply.json.get("updateVersion") != version:
            me.history.wrong.add("an answer says what was done", f"{me.name}: save {version}")
    elif reply.status == 409:
        await load(me, dice)


async def save_and_hang_up(me: SimPlayer, dice: random.Random) -> None:
    """Save, and close the connection before the reply arrives."""
    await save(me, dice, lose=True)


async def save_twice(me: SimPlayer, dice: random.Random) -> None:
    """Send two saves concurrently, as if the game ran in two windows."""
    await together(me, [save(me, dice), save(me, dice)])


@frozen
class Deal:
    """An inventory transaction with its id, its unique marker item, and an amount of currency."""

    id: str
    marker: str
    amount: int

    @classmethod
    def next_for_player(cls, me: SimPlayer, amount: int) -> Deal:
        """Return the player's next transaction; a negative amount spends currency."""
        me.transactions += 1
        return cls(f"t{me.number}-{me.transactions}", f"MARK_{me.transactions}", amount)

    def call(self, me: SimPlayer, lists: Mapping[str, Any]) -> requests.Call:
        """Return the HTTP request of the transaction.

        ``lists`` contains the lists of instanced items to add, remove or save.
        """
        added, spent = [requests.stack(self.marker, 1)], list[dict[str, Any]]()
        (added if self.amount > 0 else spent).append(requests.stack(CURRENCY, abs(self.amount)))
        empty = ("addInstancedItems", "removeInstancedItems", "saveInstancedItems")
        every = {**{name: [] for name in empty}, **lists}
        return requests.transact(
            me.character, self.id, "Hunt", addStackedItems=added, removeStackedItems=spent, **every
        )


async def transact(
    me: SimPlayer,
    deal: Deal,
    lists: Mapping[str, Any] = MappingProxyType({}),
    *,
    times: int = 1,
    lose: bool = False,
    ask: Ask | None = None,
    overtaken: Callable[[], bool] = bool,
) -> str:
    """Send the transaction, in ``times`` concurrent copies, and return its outcome.

    If ``ask`` is given, it sends the request instead of ``me.make_request``. ``overtaken`` returns
    whether the host may already have newer data; in that case, a reply of 409 is correct.
    """
    call, character, states = deal.call(me, lists), me.character, me.history.stacks
    states.sent(character, deal.id, deal.amount, deal.marker)

    def may(status: int) -> bool:
        return status == 409 and overtaken()

    async def once() -> None:
        me.under_way += 1
        try:
            if ask is not None:
                reply = await ask(*call[:2], {**call[2], "accountId": me.account})
            else:
                reply = await me.make_request(*call, patient=True, lose=lose, may=may)
            states.answered(character, deal.id, outcome(reply.status))
        finally:
            me.under_way -= 1

    await together(me, [once() for _ in range(times)])
    return states.of[character][deal.id].state


async def earn(me: SimPlayer, dice: random.Random, *, times: int = 1, lose: bool = False) -> None:
    """Send an inventory transaction, in ``times`` concurrent copies."""
    if not me.character:
        await load(me, dice)
    if me.character:
        await transact(me, Deal.next_for_player(me, dice.randrange(1, 200)), times=times, lose=lose)


async def earn_twice(me: SimPlayer, dice: random.Random) -> None:
    """Send the same transaction twice concurrently."""
    await earn(me, dice, times=2)


async def earn_and_hang_up(me: SimPlayer, dice: random.Random) -> None:
    """Close the connection before the transaction's reply arrives; the game then retries."""
    await earn(me, dice, lose=True)


async def check_balance(me: SimPlayer, dice: random.Random) -> None:
    """Read the inventory, and compare the player's balance with the currency in it."""
    stacks = await inventory(me)
    if stacks is None or CURRENCY not in stacks:
        return
    reply = await me.make_request("GET", "/balance")
    if reply.status == 200 and reply.json.get(CURRENCY) != stacks[CURRENCY]:
        # each transaction leaves a marker, so equal stacks mean no change in between
        again = await inventory(me)
        if again == stacks:
            text = f"{me.name} has {stacks[CURRENCY]} and is shown {reply.json.get(CURRENCY)}"
            me.history.wrong.add("counts agree", text)


async def inventory(me: SimPlayer) -> dict[str, int] | None:
    """Read, check and return the stacks; return None while a transaction is pending."""
    if not me.character or me.under_way:
        return None
    before, character = me.transactions, me.character
    reply = await me.make_request(*requests.inventory(me.account, character))
    if reply.status != 200 or me.under_way or me.transactions != before:
        return None
    stacks = {stack["catalogId"]: stack["quantity"] for stack in reply.json["stackedItems"]}
    held(me.history, character, stacks, reply.json["instancedItems"])
    return stacks


def held(
    history: History, character: str, stacks: dict[str, int], things: list[dict[str, Any]]
) -> None:
    """Check an inventory, read from the host or the database, against the recorded history."""
    history.stacks.check_inventory(character, stacks.get(CURRENCY, 0), stacks)
    versions = {
        thing["instanceId"]: (thing["updateVersion"], thing.get("itemData")) for thing in things
    }
    history.things.check_items(character, versions, stacks)
    counts = Counter(stacks)
    counts.update(thing["catalogId"] for thing in things)
    history.purchases.check_purchases(character, counts)
