"""What players do with characters and inventory."""

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
    """Read the character, as the client does after its log-in."""
    at_least = me.history.saves.acked.get(me.character, 0)
    heard = await me.ask("GET", "/character", patient=True)
    if heard.status != 200 or not heard.json:
        return
    found = heard.json[0]
    me.character = str(found["id"])
    version, data = int(found["updateVersion"]), str(found["data"])
    me.version = max(me.version, version)
    if version:
        me.history.saves.read(me.character, version, data, at_least)


async def save(me: SimPlayer, dice: random.Random, *, lose: bool = False) -> None:
    """Save the character, sometimes twice at once."""
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

    heard = await me.ask(*requests.save(character, version, data), lose=lose, may=may)
    if heard.status == 200:
        me.history.saves.answered(character, version, data)
        if heard.json.get("data") != data or heard.json.get("updateVersion") != version:
            me.history.wrong.add("an answer says what was done", f"{me.name}: save {version}")
    elif heard.status == 409:
        await load(me, dice)


async def save_and_hang_up(me: SimPlayer, dice: random.Random) -> None:
    """Lose the answer to a save."""
    await save(me, dice, lose=True)


async def save_twice(me: SimPlayer, dice: random.Random) -> None:
    """Two windows of one player save at the same instant: one of them is refused or later."""
    await together(me, [save(me, dice), save(me, dice)])


@frozen
class Deal:
    """An inventory transaction: its id, a marker of its own, and how much of the currency."""

    id: str
    marker: str
    amount: int

    @classmethod
    def of(cls, me: SimPlayer, amount: int) -> Deal:
        """The player's next; a negative amount is spent."""
        me.transactions += 1
        return cls(f"t{me.number}-{me.transactions}", f"MARK_{me.transactions}", amount)

    def call(self, me: SimPlayer, lists: Mapping[str, Any]) -> requests.Call:
        """The request; ``lists``: of instanced items."""
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
    """Send the transaction, perhaps twice at once; asked again until it is answered.

    ``ask``: by whom, if not by the player; ``overtaken``: whether something newer of the player's
    may be there, so that 409 is right. Returns how it ended.
    """
    call, character, states = deal.call(me, lists), me.character, me.history.stacks
    states.sent(character, deal.id, deal.amount, deal.marker)

    def may(status: int) -> bool:
        return status == 409 and overtaken()

    async def once() -> None:
        me.under_way += 1
        try:
            if ask is not None:
                heard = await ask(*call[:2], {**call[2], "accountId": me.account})
            else:
                heard = await me.ask(*call, patient=True, lose=lose, may=may)
            states.answered(character, deal.id, outcome(heard.status))
        finally:
            me.under_way -= 1

    await together(me, [once() for _ in range(times)])
    return states.of[character][deal.id].state


async def earn(me: SimPlayer, dice: random.Random, *, times: int = 1, lose: bool = False) -> None:
    """An inventory transaction, perhaps sent twice at once."""
    if not me.character:
        await load(me, dice)
    if me.character:
        await transact(me, Deal.of(me, dice.randrange(1, 200)), times=times, lose=lose)


async def earn_twice(me: SimPlayer, dice: random.Random) -> None:
    """The same transaction sent twice at the same instant."""
    await earn(me, dice, times=2)


async def earn_and_hang_up(me: SimPlayer, dice: random.Random) -> None:
    """The answer is lost; the game asks again with the same transaction."""
    await earn(me, dice, lose=True)


async def look(me: SimPlayer, dice: random.Random) -> None:
    """Read the inventory, and the balance that follows from it."""
    stacks = await inventory(me)
    if stacks is None or CURRENCY not in stacks:
        return
    heard = await me.ask("GET", "/balance")
    if heard.status == 200 and heard.json.get(CURRENCY) != stacks[CURRENCY]:
        again = await inventory(me)  # each transaction leaves a marker: equal means nothing between
        if again == stacks:
            told = f"{me.name} has {stacks[CURRENCY]} and is shown {heard.json.get(CURRENCY)}"
            me.history.wrong.add("counts agree", told)


async def inventory(me: SimPlayer) -> dict[str, int] | None:
    """The stacks, once the rules have been looked at; None while something is under way."""
    if not me.character or me.under_way:
        return None
    before, character = me.transactions, me.character
    heard = await me.ask(*requests.inventory(me.account, character))
    if heard.status != 200 or me.under_way or me.transactions != before:
        return None
    stacks = {one["catalogId"]: one["quantity"] for one in heard.json["stackedItems"]}
    held(me.history, character, stacks, heard.json["instancedItems"])
    return stacks


def held(
    history: History, character: str, stacks: dict[str, int], things: list[dict[str, Any]]
) -> None:
    """An inventory as read or stored: all rules of it."""
    history.stacks.seen(character, stacks.get(CURRENCY, 0), stacks)
    kept = {one["instanceId"]: (one["updateVersion"], one.get("itemData")) for one in things}
    history.things.seen(character, kept, stacks)
    counts = Counter(stacks)
    counts.update(one["catalogId"] for one in things)
    history.purchases.seen(character, counts)
