"""Actions of several players together, and with the shop and the game files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from urllib.parse import quote

from attrs import frozen

from svcserver.ctl.play.failed import PlayFailed
from svcserver.ctl.play.looting import KEY_HEADER
from svcserver.ctl.play.player import Item, Place, Player, follow
from svcserver.ctl.play.wire import Wire
from svcserver.kernel.secrets import hex_token
from svcserver.players import requests

PARTY = 4  # players of a party at most
CLAN = 20  # players of one guild: a leader may send 30 invites
FIRST_SLOT = 1  # of slayer links
ACCOUNT_KEY = "x-svc-user-api-key"


async def befriend(one: Player, other: Player) -> None:
    """Make a friendship, and check both lists."""
    await one.wire.ask(*requests.befriend(one.account, other.account), want=(204,))
    await other.wire.ask(*requests.befriend(other.account, one.account), want=(204,))
    for me, them in ((one, other), (other, one)):
        listed = (await me.wire.ask("GET", f"{requests.FRIENDS}/{me.account}")).json
        if {"ACCEPTED"} != {x["status"] for x in listed if x["accountId"] == them.account}:
            raise PlayFailed("metagame", f"{me.name} does not have {them.name} as a friend")
        me.relations.friends.add(them.account)


async def party_up(leader: Player, others: Sequence[Player]) -> str:
    """Form a party by invites, check that every member sees it, and return its id."""
    party = str((await leader.wire.ask("POST", "/party", {})).json["partyId"])
    for one in others:
        await one.wire.ask("POST", "/party", {})
        await leader.wire.ask(*requests.invite(one.account, party))
        invites = (await one.wire.ask("GET", "/party/invites")).json["invitations"]
        if party not in [invite["partyId"] for invite in invites]:
            raise PlayFailed("metagame", f"{one.name} did not get the party invite")
        await one.wire.ask(*requests.accept(party))
    if not others:
        return party
    wanted = sorted(one.account for one in (leader, *others))
    for one in (leader, *others):
        seen = (await one.wire.ask("POST", "/party", {})).json
        if seen["partyId"] != party or sorted(seen["playerIds"]) != wanted:
            raise PlayFailed("metagame", f"{one.name} sees another party")
    return party


async def hunt(members: Sequence[Player], hunt_id: str) -> Place:
    """Start a hunt as the leader, let the others follow; returns their game server."""
    leader, *others = members
    candidate = await leader.join("ISLAND", hunt_id)
    for one in others:
        seen = (await one.wire.ask("POST", "/party", {})).json
        if (seen["candidateId"], seen["playerHuntId"]) != (candidate, hunt_id):
            raise PlayFailed("metagame", f"{one.name} does not see their party's hunt")
        await follow(one, candidate)
    places = set()
    for one in members:
        places.add(await one.wait_for_server())
        one.hunting = True
    if len(places) != 1:
        raise PlayFailed("deploy", "one party was sent to several game servers")
    for one in members:
        await one.beat(f"/Game/Maps/islands/{hunt_id}")
    return places.pop()


async def go_home(members: Sequence[Player]) -> None:
    """The leader goes back to the city and takes the party along, as after every hunt."""
    leader, *others = members
    candidate = await leader.join("CITY")
    for one in others:
        await follow(one, candidate)
    for one in members:
        await one.wait_for_server()
        await one.beat(one.city)


async def disband(members: Sequence[Player]) -> None:
    """Let every member leave the party."""
    for one in members:
        await one.wire.ask("DELETE", "/party/member")


async def found_guild(
    leader: Player, others: Sequence[Player], direct: Wire, key: str
) -> tuple[str, str]:
    """Found a guild as the game does: the client validates the name, its game server creates it.

    Returns the guild's name and id.
    """
    name = f"Evening{hex_token(4)}"
    await leader.wire.ask(*requests.check_guild(name))
    await direct.ask(*requests.found_guild(leader.account, name), headers={KEY_HEADER: key})
    for one in others:
        await leader.wire.ask(*requests.invite_to_guild(one.account))
        [invite] = (await one.wire.ask("GET", "/guild/invite/player")).json["invites"]
        await one.wire.ask(*requests.accept_guild(invite["id"]))
    wanted, ids = {one.account for one in (leader, *others)}, set()
    for one in (leader, *others):
        guild = (await one.wire.ask("GET", "/guild")).json
        ids.add(str(guild["id"]))
        if guild["name"] != name or len(guild["members"]) != len(wanted) or len(ids) != 1:
            raise PlayFailed("metagame", f"{one.name} is not in the guild {name}")
        one.relations.guild, one.relations.fellows = str(guild["id"]), wanted
    return name, ids.pop()


async def link(one: Player, other: Player) -> str:
    """Make a slayer link by an invite, check it on both sides, and return its id."""
    call = requests.invite_to_link(other.account, FIRST_SLOT)
    said = (await one.wire.ask(*call)).json["payload"]
    invites = (await other.wire.ask("GET", "/slayerlink/invites")).json["payload"]["invites"]
    made = str(said["link_id"])
    if made not in [invite["link_id"] for invite in invites]:
        raise PlayFailed("metagame", f"{other.name} did not get the slayer link's invite")
    await other.wire.ask(*requests.answer_link(one.account, "accept", slot=FIRST_SLOT))
    for me, them in ((one, other), (other, one)):
        links = (await me.wire.ask("GET", "/slayerlink/links")).json["payload"]["links"]
        if [(entry["account_id"], entry["link_id"]) for entry in links] != [(them.account, made)]:
            raise PlayFailed("metagame", f"{me.name} has no slayer link with {them.name}")
        me.relations.links[them.account] = made
    return made


async def shop(player: Player) -> str:
    """Buy a free item, with the request sent twice, and check that it is there once."""
    offers = (await player.wire.ask("GET", "/product/skus/public?requiredTags=webstore")).json
    fitting = [one for one in offers if one["remaining"] == 1 and len(one["items"] or []) == 1]
    if not fitting:
        raise PlayFailed("metagame", "the store (STORE=free) offers nothing")
    sku = str(fitting[0]["id"])
    item = str(fitting[0]["items"][0]["catalogId"])
    said = (await player.wire.ask("GET", f"/token/platinum/{sku}")).json
    for _ in range(2):
        await player.wire.ask(*requests.buy(said["purchaseToken"]), want=(204,))
    held = (await player.wire.ask(*requests.inventory(player.account, player.character))).json
    stacks = sum(one["quantity"] for one in held["stackedItems"] if one["catalogId"] == item)
    single = [one for one in held["instancedItems"] if one["catalogId"] == item]
    if stacks + len(single) != 1:
        count = stacks + len(single)
        raise PlayFailed("metagame", f"{player.name} bought {item} once and holds {count}")
    player.earned.add(
        {item: stacks} if stacks else {},
        {str(one["instanceId"]): Item(item, one["updateVersion"], None) for one in single},
    )
    return item


@frozen
class Downloaded:
    """A game file as a player received it."""

    path: str
    body: bytes


async def download(player: Player) -> list[Downloaded]:
    """Download every file of the manifest and check its hash."""
    listed = (await player.wire.ask("GET", "/content/v1/manifest")).json["files"]
    got = []
    for one in listed:
        path = f"/content/v1/files/{quote(one['path'])}"
        heard = await player.wire.ask("GET", path, headers={ACCOUNT_KEY: player.key})
        if hashlib.sha256(heard.body).hexdigest() != one["sha256"]:
            raise PlayFailed(
                "content", f"{one['path']} came with other bytes than the manifest says"
            )
        got.append(Downloaded(str(one["path"]), heard.body))
    if not got:
        raise PlayFailed("content", "the manifest lists no file")
    return got
