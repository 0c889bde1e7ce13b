"""What players do with characters, inventory and experience."""

from __future__ import annotations

import json
import random

from svcserver.sim.history import ACKED, REFUSED, UNKNOWN
from svcserver.sim.player import (
    CURRENCY,
    KEY_HEADER,
    SEASON,
    SimPlayer,
    together,
)


async def load(me: SimPlayer, dice: random.Random) -> None:
    """Read the character."""
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
    wish = {"characterId": me.character, "data": data, "updateVersion": version}
    me.history.saves.sent(me.character, version, data)
    character = me.character
    heard = await me.ask("POST", "/character", wish, lose=lose)
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


async def earn(me: SimPlayer, dice: random.Random, *, times: int = 1, lose: bool = False) -> None:
    """An inventory transaction, perhaps sent twice at once; asked again until it is answered."""
    if not me.character:
        await load(me, dice)
    if not me.character:
        return
    me.transactions += 1
    number, amount = me.transactions, dice.randrange(1, 200)
    name, marker = f"t{me.number}-{number}", f"MARK_{number}"
    wish = {
        "characterId": me.character,
        "transactionId": name,
        "addStackedItems": [
            {"catalogId": CURRENCY, "quantity": amount},
            {"catalogId": marker, "quantity": 1},
        ],
        "addInstancedItems": [],
        "removeInstancedItems": [],
        "removeStackedItems": [],
        "saveInstancedItems": [],
        "source": "Hunt",
    }
    me.history.stacks.sent(me.character, name, amount, marker)

    async def once() -> None:
        character = me.character
        me.under_way += 1
        try:
            heard = await me.ask("POST", "/inventory", wish, patient=True, lose=lose)
            state = ACKED if heard.status == 200 else REFUSED if heard.status < 500 else UNKNOWN
            me.history.stacks.answered(character, name, state)
        finally:
            me.under_way -= 1

    await together(me, [once() for _ in range(times)])


async def earn_twice(me: SimPlayer, dice: random.Random) -> None:
    """The same transaction sent twice at the same instant."""
    await earn(me, dice, times=2)


async def earn_and_hang_up(me: SimPlayer, dice: random.Random) -> None:
    """The answer is lost; the game asks again with the same transaction."""
    await earn(me, dice, lose=True)


async def look(me: SimPlayer, dice: random.Random) -> None:
    """Read the inventory."""
    if not me.character or me.under_way:
        return
    before = me.transactions
    heard = await me.ask("GET", f"/inventory/{me.account}/{me.character}")
    if heard.status == 200 and not me.under_way and me.transactions == before:
        held = {one["catalogId"]: one["quantity"] for one in heard.json["stackedItems"]}
        me.history.stacks.seen(me.character, held.get(CURRENCY, 0), held)


async def granted(me: SimPlayer, dice: random.Random) -> None:
    """The game server of a hunt grants experience, sent twice as the real one does."""
    if me.place is None:
        return
    server = me.servers.at(me.place[1])
    if server is None or not server.listens:
        return
    amount = dice.randrange(20, 150)
    server.loot[me.account] = server.loot.get(me.account, 0) + 1
    wish = {"progress_tracks": [{"progression_id": SEASON, "progress": amount}], "objectives": []}
    headers = {KEY_HEADER: server.line.key, **me.bearer()}
    account, states = me.account, []
    number = me.history.waiting.began(f"a game server grants {me.name}", me.now)

    async def once() -> None:
        state = UNKNOWN
        try:
            path = f"/progression/{account}"
            heard = await me.direct.ask("POST", path, wish, headers=headers)
            state = ACKED if heard.status == 200 else REFUSED if heard.status < 500 else UNKNOWN
        finally:
            states.append(state)

    try:
        await together(me, [once(), once()])
    finally:
        me.history.waiting.ended(number)
        best = min(states, default=UNKNOWN, key=(ACKED, UNKNOWN, REFUSED).index)
        me.history.grants.granted(account, amount, best)
