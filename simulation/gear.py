"""The players' actions on instanced items, loadouts and the store."""

import json
import random
from typing import Any

from simulation.belongings import Deal, load, transact
from simulation.holdings import ItemChange
from simulation.outcomes import ACKED, UNKNOWN, outcome
from simulation.player import SimPlayer, Stopped, together
from svcserver.players.http import NoAnswer
from svcserver.players.requests import buy, loadout, thing

WEAPON = "WP_SIM"  # not in the store
MOST_ITEMS = 6  # of a player at a time
TAGS = ("webstore", "season09b_pass")
FEW = 6  # offers a player uses, so that some are bought repeatedly
PERSISTENT = "persistent"


async def craft(me: SimPlayer, dice: random.Random) -> None:
    """Create an item; the request is sometimes sent twice concurrently."""
    if not me.character:
        await load(me, dice)
    if not me.character or len(me.items) >= MOST_ITEMS:
        return
    deal = Deal.next_for_player(me, dice.randrange(1, 20))
    item, data = f"item-{deal.id}", json.dumps({"Power": dice.randrange(100)})
    made = me.history.things.sent(me.character, item, ItemChange(1, data, deal.marker))
    lists = {"addInstancedItems": [thing(WEAPON, item, 1, data)]}
    made.state = await transact(me, deal, lists, times=1 + (dice.random() < 0.3))
    if made.state == ACKED:
        me.items[item] = 1


async def repair(me: SimPlayer, dice: random.Random) -> None:
    """Pay for a better version of an item in one transaction."""
    change = _next(me, dice)
    if change is None:
        return
    item, version, data = change
    price = dice.randrange(1, 30)
    if me.history.stacks.sure[me.character] < price:
        return
    deal = Deal.next_for_player(me, -price)
    made = me.history.things.sent(me.character, item, ItemChange(version, data, deal.marker))
    lists = {"saveInstancedItems": [thing(WEAPON, item, version, data)]}

    def overtaken() -> bool:
        return me.items.get(item) != version  # the item was honed meanwhile, or repaired again

    lose = dice.random() < 0.15
    made.state = await transact(me, deal, lists, lose=lose, overtaken=overtaken)


async def hone(me: SimPlayer, dice: random.Random) -> None:
    """Save a new version of an item, sometimes with a concurrent save from a second window."""
    works = [_hone(me, dice) for _ in range(1 + (dice.random() < 0.3))]
    await together(me, works)


async def _hone(me: SimPlayer, dice: random.Random) -> None:
    change = _next(me, dice)
    if change is None:
        return
    item, version, data = change
    made = me.history.things.sent(me.character, item, ItemChange(version, data))
    body = {"characterId": me.character, **thing(WEAPON, item, version, data)}

    def may(status: int) -> bool:
        return status == 409 and me.items.get(item) != version  # a newer version was sent

    me.transactions += 1
    me.under_way += 1
    try:
        reply = await me.make_request("POST", "/inventory/instanceditem", body, may=may)
        made.state = outcome(reply.status)
    finally:
        me.under_way -= 1


async def salvage(me: SimPlayer, dice: random.Random) -> None:
    """Exchange an item for some currency."""
    settled = [item for item in me.items if me.history.things.settled(me.character, item)]
    if not settled or me.under_way:
        return
    item = dice.choice(settled)
    del me.items[item]
    deal = Deal.next_for_player(me, dice.randrange(1, 20))
    me.history.things.sent(me.character, item, ItemChange(None, marker=deal.marker))
    await transact(me, deal, {"removeInstancedItems": [{"instanceId": item}]})


def _next(me: SimPlayer, dice: random.Random) -> tuple[str, int, str] | None:
    """Return a new version of a random item, or None if the player has no items."""
    if not me.items or not me.character:
        return None
    item = dice.choice(list(me.items))
    me.items[item] += 1
    return item, me.items[item], json.dumps({"Honed": me.items[item], "Dice": dice.random()})


async def arm(me: SimPlayer, dice: random.Random) -> None:
    """Save a slot or the persistent part of the loadout, and compare the reply with the save."""
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
    reply = await me.make_request(*call, lose=lose, may=may)
    chosen.answered(write, outcome(reply.status), me.now)
    if reply.status == 200 and _slots(reply.json["payload"]).get(slot) != write.value:
        me.history.wrong.add("an answer says what was done", f"{me.name}: slot {slot}")


async def armed(me: SimPlayer, dice: random.Random) -> None:
    """Read the loadout and compare it with the recorded saves and unlocks."""
    if not me.character:
        return
    began, unlocks, path = me.now, me.unlocks, f"/loadout/{me.account}/{me.character}"
    reply = await me.make_request("GET", f"{path}/all")
    if reply.status != 200:
        return
    payload = reply.json["payload"]
    slots, chosen = _slots(payload), me.history.chosen
    for slot in (*map(str, range(6)), PERSISTENT):
        if f"{path}/{slot}" in chosen.of:  # an unsaved slot may have the game's default
            chosen.check_value(f"{path}/{slot}", slots.get(slot), began)
    if not me.unlocking and me.unlocks == unlocks:
        me.history.slots.check_slots(me.character, payload["num_character_slots"])


def _slots(payload: dict[str, Any]) -> dict[str, str]:
    """Return a dict from the name of each part of a loadout to the part as a comparable string."""
    slots = {str(loadout["slot_index"]): _text(loadout) for loadout in payload["loadouts"]}
    return {**slots, PERSISTENT: _text(payload["persistent"])}


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True)


async def window(me: SimPlayer, dice: random.Random) -> None:
    """Read all offers of the store, and choose a few for the player's later purchases."""
    available: list[str] = []
    for tag in TAGS:
        reply = await me.make_request("GET", f"/product/skus/public?requiredTags={tag}")
        if reply.status != 200:
            return
        available += [offer["id"] for offer in reply.json if offer["remaining"]]
    me.offers = [*dice.sample(available, min(FEW - 1, len(available))), *available[-1:]]


async def _purchase_tokens(me: SimPlayer, dice: random.Random, offer: str) -> list[str]:
    tokens: list[str] = []
    for _ in range(1 + (dice.random() < 0.3)):  # some press the button twice
        reply = await me.make_request("GET", f"/token/platinum/{offer}")
        if reply.status == 200:
            tokens.append(reply.json["purchaseToken"])
    return tokens


async def shop(me: SimPlayer, dice: random.Random) -> None:
    """Buy an offer from the store.

    Sometimes the request is sent twice, and sometimes its reply is lost.
    """
    if not me.offers:
        await window(me, dice)
    if not me.offers or not me.character:
        return
    character, account = me.character, me.account
    reply = await me.make_request("GET", f"/product/sku/{dice.choice(me.offers)}")
    if reply.status != 200 or not reply.json["remaining"]:
        return
    offer = reply.json
    tokens = await _purchase_tokens(me, dice, offer["id"])
    if not tokens:
        return
    states: list[str] = []

    async def once(token: str, *, lose: bool) -> None:
        me.transactions += 1
        me.under_way += 1
        state = UNKNOWN
        try:
            state = outcome((await me.make_request(*buy(token), lose=lose)).status)
        finally:
            me.under_way -= 1
            states.append(state)

    missing, times = dice.random() < 0.2, 1 + (dice.random() < 0.5)
    try:
        await together(me, [once(token, lose=missing) for token in tokens * times])
    except (NoAnswer, Stopped):
        if me.token:
            await once(tokens[0], lose=False)  # the game asks again with the token that it has
    finally:
        state = ACKED if ACKED in states else UNKNOWN if UNKNOWN in states else states[0]
        items = [item["catalogId"] for item in offer["items"] or ()]
        rights = [entitlement["name"] for entitlement in offer["entitlements"]]
        me.history.purchases.bought(account, character, items, rights, state)
