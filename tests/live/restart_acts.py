"""Actions of players that must count once, although the gateway may send a request twice.

A repeated request has the same id as the first attempt. The metagame recognises it by the id
(``svcserver/metagame/once.py``). A refusal by the game also counts as an answer, for example when
the party is full, a quota is used up or the friend has been removed.
"""

from collections.abc import Awaitable, Callable
from uuid import uuid4

from svcserver.ctl.play.player import Player
from svcserver.kernel import json
from svcserver.players import requests

ANSWERED = tuple(range(200, 500))  # any answer of the game, including a refusal
BLOCKED = "/friends/api/public/blocklist"
HUNT = "ShatteredIsles_ReturnTo_City"


async def invite(me: Player, second: Player) -> None:
    await me.wire.send_request("POST", "/party", {}, want=ANSWERED)
    request = {"recipientPlayerId": second.account}
    await me.wire.send_request("PUT", "/party/invite", request, want=ANSWERED)


async def accept(me: Player, second: Player) -> None:
    result = (await me.wire.send_request("GET", "/party/invites")).json["invitations"]
    for item in result[:1]:
        await me.wire.send_request(*requests.accept(item["partyId"]), want=ANSWERED)


async def part(me: Player, second: Player) -> None:
    await me.wire.send_request("DELETE", "/party/member", want=ANSWERED)


async def match(me: Player, second: Player) -> None:
    await me.wire.send_request(*requests.join("CITY", HUNT), want=ANSWERED)
    await me.wire.send_request("DELETE", "/candidate/leave", want=ANSWERED)


async def befriend(me: Player, second: Player) -> None:
    await me.wire.send_request(*requests.befriend(me.account, second.account), want=ANSWERED)


async def unfriend(me: Player, second: Player) -> None:
    await me.wire.send_request(*requests.unfriend(me.account, second.account), want=ANSWERED)


async def block(me: Player, second: Player) -> None:
    # blocks an account that does not take part in the chat
    path = f"{BLOCKED}/{me.account}/{uuid4()}"
    await me.wire.send_request("PUT", path, want=ANSWERED)
    await me.wire.send_request("DELETE", path, want=ANSWERED)


async def guild(me: Player, second: Player) -> None:
    await me.wire.send_request(*requests.check_guild(f"Hall{second.account[-8:]}"), want=ANSWERED)
    await me.wire.send_request(*requests.invite_to_guild(second.account), want=ANSWERED)
    await me.wire.send_request("DELETE", "/guild/player", want=ANSWERED)


async def shop(me: Player, second: Player) -> None:
    """Buy the shop's first item; if the player already has the item, the shop refuses."""
    offers = (await me.wire.send_request("GET", "/product/skus/public?requiredTags=webstore")).json
    if offers:
        path = f"/token/platinum/{offers[0]['id']}"
        reply = await me.wire.send_request("GET", path, want=(200, 409))
        if reply.status == 200:
            await me.wire.send_request(*requests.buy(reply.json["purchaseToken"]), want=ANSWERED)


async def arm(me: Player, second: Player) -> None:
    document = json.dump({"slot_index": 0, "update_version": 1, "custom_name": "Hunt"}).decode()
    call = requests.loadout(me.account, me.character, "0", {"data": document})
    await me.wire.send_request(*call, want=ANSWERED)


ONCE: dict[str, Callable[[Player, Player], Awaitable[None]]] = {
    act.__name__: act
    for act in (invite, accept, part, match, befriend, unfriend, block, guild, shop, arm)
}
