"""What players do in an evening that must count once, though the gateway may send it twice.

The second has the id of the first, by which the metagame knows it (``svcserver/metagame/once.py``).

What the game refuses (a full party, a quota, a friend who is none any more) is an answer, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import uuid4

from svcserver.ctl.play.player import Player
from svcserver.kernel import json

ANSWERED = tuple(range(200, 500))  # by the game, whether it did so or not
FRIENDS = "/friends/api/public/friends"
BLOCKED = "/friends/api/public/blocklist"
HUNT = "ShatteredIsles_ReturnTo_City"


async def invite(me: Player, other: Player) -> None:
    await me.wire.ask("POST", "/party", json={}, want=ANSWERED)
    wish = {"recipientPlayerId": other.account}
    await me.wire.ask("PUT", "/party/invite", json=wish, want=ANSWERED)


async def accept(me: Player, other: Player) -> None:
    found = (await me.wire.ask("GET", "/party/invites")).json["invitations"]
    for one in found[:1]:
        path = f"/party/invite/accept/{one['partyId']}"
        await me.wire.ask("PUT", path, json={}, want=ANSWERED)


async def part(me: Player, other: Player) -> None:
    await me.wire.ask("DELETE", "/party/member", want=ANSWERED)


async def match(me: Player, other: Player) -> None:
    wish = {"gameMode": "CITY", "gameArgs": "", "playerHuntId": HUNT}
    await me.wire.ask("POST", "/candidate/join", json=wish, want=ANSWERED)
    await me.wire.ask("DELETE", "/candidate/leave", want=ANSWERED)


async def befriend(me: Player, other: Player) -> None:
    path = f"{FRIENDS}/{me.account}/{other.account}"
    await me.wire.ask("POST", path, want=ANSWERED)


async def unfriend(me: Player, other: Player) -> None:
    path = f"{FRIENDS}/{me.account}/{other.account}"
    await me.wire.ask("DELETE", path, want=ANSWERED)


async def block(me: Player, other: Player) -> None:
    path = f"{BLOCKED}/{me.account}/{uuid4()}"  # nobody of those who talk
    await me.wire.ask("PUT", path, want=ANSWERED)
    await me.wire.ask("DELETE", path, want=ANSWERED)


async def guild(me: Player, other: Player) -> None:
    wish = {"name": f"Hall{other.account[-8:]}", "nameplate": ""}
    await me.wire.ask("POST", "/guild/validate", json=wish, want=ANSWERED)
    await me.wire.ask("PUT", f"/guild/invite/{other.account}", json={}, want=ANSWERED)
    await me.wire.ask("DELETE", "/guild/player", want=ANSWERED)


async def shop(me: Player, other: Player) -> None:
    """What was bought before is refused."""
    offers = (await me.wire.ask("GET", "/product/skus/public?requiredTags=webstore")).json
    if offers:
        path = f"/token/platinum/{offers[0]['id']}"
        said = await me.wire.ask("GET", path, want=(200, 409))
        if said.status == 200:
            bought = f"/notification/platinum?token={said.json['purchaseToken']}"
            await me.wire.ask("POST", bought, json={}, want=ANSWERED)


async def arm(me: Player, other: Player) -> None:
    document = json.dump({"slot_index": 0, "update_version": 1, "custom_name": "Hunt"}).decode()
    path = f"/loadout/{me.account}/{me.character}/0"
    await me.wire.ask("POST", path, json={"data": document}, want=ANSWERED)


ONCE: dict[str, Callable[[Player, Player], Awaitable[None]]] = {
    one.__name__: one
    for one in (invite, accept, part, match, befriend, unfriend, block, guild, shop, arm)
}
