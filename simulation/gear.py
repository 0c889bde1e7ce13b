"""What players do with items that stand for themselves, loadouts and the store."""

from __future__ import annotations

import json
import random
from typing import Any

from simulation.belongings import Deal, load, transact
from simulation.holdings import Change
from simulation.outcomes import ACKED, UNKNOWN, outcome
from simulation.player import SimPlayer, Stopped, together
from svcserver.players.http import NoAnswer
from svcserver.players.requests import buy, loadout, thing

WEAPON = "WP_SIM"  # the store has no such
MOST_ITEMS = 6  # of a player at a time
TAGS = ("webstore", "season09b_pass")
FEW = 6  # offers that a player cares for: some are bought again and again
PERSISTENT = "persistent"


async def craft(me: SimPlayer, dice: random.Random) -> None:
    """Make an item, sometimes sent twice at once."""
    if not me.character:
        await load(me, dice)
    if not me.character or len(me.items) >= MOST_ITEMS:
        return
    deal = Deal.of(me, dice.randrange(1, 20))
    item, data = f"item-{deal.id}", json.dumps({"Power": dice.randrange(100)})
    made = me.history.things.sent(me.character, item, Change(1, data, deal.marker))
    lists = {"addInstancedItems": [thing(WEAPON, item, 1, data)]}
    made.state = await transact(me, deal, lists, times=1 + (dice.random() < 0.3))
    if made.state == ACKED:
        me.items[item] = 1


async def repair(me: SimPlayer, dice: random.Random) -> None:
    """Pay for a better version of an item: both or neither."""
    change = _next(me, dice)
    if change is None:
        return
    item, version, data = change
    price = dice.randrange(1, 30)
    if me.history.stacks.sure[me.character] < price:
        return
    deal = Deal.of(me, -price)
    made = me.history.things.sent(me.character, item, Change(version, data, deal.marker))
    lists = {"saveInstancedItems": [thing(WEAPON, item, version, data)]}

    def overtaken() -> bool:
        return me.items.get(item) != version  # the item was honed meanwhile, or repaired again

    lose = dice.random() < 0.15
    made.state = await transact(me, deal, lists, lose=lose, overtaken=overtaken)


async def hone(me: SimPlayer, dice: random.Random) -> None:
    """Save one item by itself; sometimes two windows do, and the older version is refused."""
    works = [_hone(me, dice) for _ in range(1 + (dice.random() < 0.3))]
    await together(me, works)


async def _hone(me: SimPlayer, dice: random.Random) -> None:
    change = _next(me, dice)
    if change is None:
        return
    item, version, data = change
    made = me.history.things.sent(me.character, item, Change(version, data))
    wish = {"characterId": me.character, **thing(WEAPON, item, version, data)}

    def may(status: int) -> bool:
        return status == 409 and me.items.get(item) != version  # a newer one was sent

    me.transactions += 1
    me.under_way += 1
    try:
        heard = await me.ask("POST", "/inventory/instanceditem", wish, may=may)
        made.state = outcome(heard.status)
    finally:
        me.under_way -= 1


async def salvage(me: SimPlayer, dice: random.Random) -> None:
    """Take an item apart for some currency."""
    settled = [one for one in me.items if me.history.things.settled(me.character, one)]
    if not settled or me.under_way:
        return
    item = dice.choice(settled)
    del me.items[item]
    deal = Deal.of(me, dice.randrange(1, 20))
    me.history.things.sent(me.character, item, Change(None, marker=deal.marker))
    await transact(me, deal, {"removeInstancedItems": [{"instanceId": item}]})


def _next(me: SimPlayer, dice: random.Random) -> tuple[str, int, str] | None:
    """A new version of some item; None where the player has none."""
    if not me.items or not me.character:
        return None
    item = dice.choice(list(me.items))
    me.items[item] += 1
    return item, me.items[item], json.dumps({"Honed": me.items[item], "Dice": dice.random()})


async def arm(me: SimPlayer, dice: random.Random) -> None:
    """Save a loadout slot or the persistent part; the answer shows what was saved."""
    if not me.character:
        await load(me, dice)
    if not me.character:
        return
    me.documents += 1
    slot = dice.choice(("0", "0", "1", "2", PERSISTENT))
    document: dict[str, Any] = {"update_version": me.documents, "flask": f"of {me.name} \u00fc"}
    if slot != PERSISTENT:
        document = {"slot_index": int(slot), **document}
    chosen, path = me.history.chosen, f"/loadout/{me.account}/{me.character}"
    write = chosen.sent(f"{path}/{slot}", _text(document), me.now)
    lose, unlocked = dice.random() < 0.1, me.history.slots.least.get(me.character, 0)

    def may(status: int) -> bool:
        return status == 400 and slot != PERSISTENT and int(slot) > unlocked

    call = loadout(me.account, me.character, slot, {"data": json.dumps(document)})
    heard = await me.ask(*call, lose=lose, may=may)
    chosen.answered(write, outcome(heard.status), me.now)
    if heard.status == 200 and _slots(heard.json["payload"]).get(slot) != write.value:
        me.history.wrong.add("an answer says what was done", f"{me.name}: slot {slot}")


async def armed(me: SimPlayer, dice: random.Random) -> None:
    """Read the loadout."""
    if not me.character:
        return
    began, unlocks, path = me.now, me.unlocks, f"/loadout/{me.account}/{me.character}"
    heard = await me.ask("GET", f"{path}/all")
    if heard.status != 200:
        return
    payload = heard.json["payload"]
    slots, chosen = _slots(payload), me.history.chosen
    for slot in (*map(str, range(6)), PERSISTENT):
        if f"{path}/{slot}" in chosen.of:  # what was never saved may have the game's own
            chosen.read(f"{path}/{slot}", slots.get(slot), began)
    if not me.unlocking and me.unlocks == unlocks:
        me.history.slots.seen(me.character, payload["num_character_slots"])


def _slots(payload: dict[str, Any]) -> dict[str, str]:
    """The elements of a loadout by name, as texts that can be compared."""
    slots = {str(one["slot_index"]): _text(one) for one in payload["loadouts"]}
    return {**slots, PERSISTENT: _text(payload["persistent"])}


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)


async def window(me: SimPlayer, dice: random.Random) -> None:
    """Look at all that the store has, and remember some of it."""
    seen: list[str] = []
    for tag in TAGS:
        heard = await me.ask("GET", f"/product/skus/public?requiredTags={tag}")
        if heard.status != 200:
            return
        seen += [one["id"] for one in heard.json if one["remaining"]]
    me.offers = [*dice.sample(seen, min(FEW - 1, len(seen))), *seen[-1:]]


async def _purchase_tokens(me: SimPlayer, dice: random.Random, offer: str) -> list[str]:
    tokens: list[str] = []
    for _ in range(1 + (dice.random() < 0.3)):  # some press the button twice
        heard = await me.ask("GET", f"/token/platinum/{offer}")
        if heard.status == 200:
            tokens.append(heard.json["purchaseToken"])
    return tokens


async def shop(me: SimPlayer, dice: random.Random) -> None:
    """Take something from the store; the request is sent twice, or its answer is lost."""
    if not me.offers:
        await window(me, dice)
    if not me.offers or not me.character:
        return
    character, account = me.character, me.account
    heard = await me.ask("GET", f"/product/sku/{dice.choice(me.offers)}")
    if heard.status != 200 or not heard.json["remaining"]:
        return
    offer = heard.json
    tokens = await _purchase_tokens(me, dice, offer["id"])
    if not tokens:
        return
    states: list[str] = []

    async def once(token: str, *, lose: bool) -> None:
        me.transactions += 1
        me.under_way += 1
        state = UNKNOWN
        try:
            state = outcome((await me.ask(*buy(token), lose=lose)).status)
        finally:
            me.under_way -= 1
            states.append(state)

    lost, times = dice.random() < 0.2, 1 + (dice.random() < 0.5)
    try:
        await together(me, [once(one, lose=lost) for one in tokens * times])
    except (NoAnswer, Stopped):
        if me.token:
            await once(tokens[0], lose=False)  # the game asks again with the token that it has
    finally:
        state = ACKED if ACKED in states else UNKNOWN if UNKNOWN in states else states[0]
        items = [one["catalogId"] for one in offer["items"] or ()]
        rights = [one["name"] for one in offer["entitlements"]]
        me.history.purchases.bought(account, character, items, rights, state)
