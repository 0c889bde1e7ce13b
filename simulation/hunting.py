"""A hunt's game server, which writes a player's experience, loot, bounties and hunt pass.

The game server authenticates with its key, forwards the player's token, and sends some writes twice
concurrently.
"""

import json
import random
from typing import Any

from simulation.belongings import Deal, load, transact
from simulation.outcomes import ACKED, REFUSED, UNKNOWN, outcome
from simulation.player import SEASON, SimPlayer, together
from svcserver.players import requests
from svcserver.players.http import Reply

PASSES = ("season09b", "MasteryTrack_PlayerLevel", "MasteryTrack_Behemoth")
OBJECTIVE = "MasteryObjective_Sword_Craft"
BOARD = 4  # bounties of a player at a time


async def served(me: SimPlayer, method: str, path: str, body: Any = None) -> Reply | None:
    """Send a request from the player's game server; return None if there is no such server."""
    server = me.place
    if server is None or not server.plays:
        return None
    server.loot[me.account] = server.loot.get(me.account, 0) + 1
    return await me.ask_by_server(server, method, path, body)


def on_hunt(me: SimPlayer) -> bool:
    """Return whether the player is on a game server that listens."""
    return me.place is not None and me.place.plays


async def twice(me: SimPlayer, method: str, path: str, body: Any) -> str:
    """Send the same request twice concurrently, like the real game server."""
    states: list[str] = []

    async def once() -> None:
        state = REFUSED  # nothing was sent
        try:
            if on_hunt(me):
                state = UNKNOWN
                reply = await served(me, method, path, body)
                state = REFUSED if reply is None else outcome(reply.status)
        finally:
            states.append(state)

    try:
        await together(me, [once(), once()])
    finally:
        best = min(states, default=UNKNOWN, key=(ACKED, UNKNOWN, REFUSED).index)
    return best


async def granted(me: SimPlayer, dice: random.Random) -> None:
    """Grant experience and an objective; the request is sent twice and must be applied once.

    The host treats an equal grant that follows within seconds as a retry. So each grant has an
    objective with its own number, which makes the grant unique.
    """
    if not on_hunt(me):
        return
    amount, account, chosen = dice.randrange(20, 150), me.account, me.history.chosen
    me.documents += 1
    call = requests.grant(account, SEASON, amount, OBJECTIVE, me.documents)
    state = UNKNOWN
    write = chosen.sent(f"/progression/objectives/{account}", f"{me.documents}", me.now)
    grant = me.history.grants.sent(account, amount, me.now)
    try:
        state = await twice(me, *call)
    finally:
        me.history.grants.answered(grant, state, me.now)
        chosen.answered(write, state, me.now)


async def loot(me: SimPlayer, dice: random.Random) -> None:
    """Send a hunt's loot as a transaction of the game server, sometimes twice concurrently."""
    if not me.character:
        await load(me, dice)
    if not me.character or not on_hunt(me):
        return

    async def ask(method: str, path: str, body: Any) -> Reply:
        return await served(me, method, path, body) or Reply(410, b"")

    times = 1 + (dice.random() < 0.5)
    await transact(me, Deal.next_for_player(me, dice.randrange(1, 200)), times=times, ask=ask)


async def bounty(me: SimPlayer, dice: random.Random) -> None:
    """Write a bounty; sometimes write an older version afterwards, which the host must ignore."""
    if not on_hunt(me):
        return
    slot, boards, account = dice.randrange(BOARD), me.history.boards, me.account
    name = f"Bounty_{slot}"
    what = f"{account}/{name}"
    me.documents += 2
    newest = me.documents
    older = newest - 1 if dice.random() < 0.4 else newest

    async def write(version: int) -> None:
        element = {"bounty_id": name, "slot_index": slot, "update_version": version}
        element["drafted_timestamp"] = "2026-09-01T00:00:00Z"
        text = json.dumps(element, sort_keys=True)
        boards.sent(what, version, text)
        reply = await served(me, *requests.bounty(account, element))
        if reply is not None and reply.status == 200:
            boards.answered(what, version, text)

    await write(newest)
    await write(older)


async def choose_pass(me: SimPlayer, dice: random.Random) -> None:
    """Let the game server choose a hunt pass for the player."""
    if not on_hunt(me):
        return
    path, chosen = f"/huntpass/{me.account}", me.history.chosen
    wanted = dice.choice(PASSES)
    write = chosen.sent(path, wanted, me.now)
    reply = await served(me, *requests.choose_pass(me.account, wanted))
    chosen.answered(write, REFUSED if reply is None else outcome(reply.status), me.now)


async def unlock(me: SimPlayer, dice: random.Random) -> None:
    """Unlock a loadout slot and make it the active slot."""
    if not on_hunt(me) or not me.character:
        return
    account, character = me.account, me.character
    me.unlocks += 1
    me.unlocking += 1
    state = UNKNOWN
    try:
        reply = await served(me, *requests.loadout(account, character, "unlock/1"))
        state = REFUSED if reply is None else outcome(reply.status)
    finally:
        me.unlocking -= 1
        me.history.slots.unlocked(character, state)
    if state == ACKED:
        await served(me, *requests.loadout(account, character, "active/1"))


async def earned(me: SimPlayer, dice: random.Random) -> None:
    """Read and check the rewards of hunts: bounties, an objective and the hunt pass."""
    account, boards = me.account, me.history.boards
    names = {f"Bounty_{slot}": f"{account}/Bounty_{slot}" for slot in range(BOARD)}
    least = {name: boards.acked.get(what, 0) for name, what in names.items()}
    reply = await me.make_request("GET", f"/bounty/{account}")
    if reply.status == 200:
        there = {bounty["bounty_id"]: bounty for bounty in reply.json["payload"]["bounties"]}
        for name, what in names.items():
            bounty = there.get(name)
            version = 0 if bounty is None else bounty["update_version"]
            boards.compare_save(what, version, json.dumps(bounty, sort_keys=True), least[name])
    began, path = me.now, f"/progression/objectives/{account}"
    reply = await me.make_request("GET", path)
    if reply.status == 200:
        done = [entry for entry in reply.json["payload"] if entry["objective_id"] == OBJECTIVE]
        me.history.chosen.check_value(path, f"{done[0]['progress']}" if done else None, began)
    began, path = me.now, f"/huntpass/{account}"
    reply = await me.make_request("GET", path)
    if reply.status == 200:
        me.history.chosen.check_value(path, reply.json["payload"], began)
