"""Simulated friendships, parties, hunts, guilds, slayer links, purchases and downloads."""

import hashlib
from collections.abc import Sequence
from urllib.parse import quote

from attrs import frozen

from svcserver.ctl.play.looting import KEY_HEADER
from svcserver.ctl.play.player import Item, Player, ServerAddress, follow
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.wire import HttpWire
from svcserver.kernel.secrets import hex_token
from svcserver.players import requests

FIRST_SLOT = 1  # the slot for slayer links
ACCOUNT_KEY = "x-svc-user-api-key"


async def befriend(first: Player, second: Player) -> None:
    """Create a friendship, and check both players' friend lists."""
    await first.wire.send_request(*requests.befriend(first.account, second.account), want=(204,))
    await second.wire.send_request(*requests.befriend(second.account, first.account), want=(204,))
    for player, friend in ((first, second), (second, first)):
        listed = (
            await player.wire.send_request("GET", f"{requests.FRIENDS}/{player.account}")
        ).json
        if {"ACCEPTED"} != {x["status"] for x in listed if x["accountId"] == friend.account}:
            raise PlayFailed("metagame", f"{player.name} does not have {friend.name} as a friend")
        player.relations.friends.add(friend.account)


async def party_up(leader: Player, others: Sequence[Player]) -> str:
    """Form a party by invites and check that every member sees it; return the party's id."""
    party = str((await leader.wire.send_request("POST", "/party", {})).json["partyId"])
    for member in others:
        await member.wire.send_request("POST", "/party", {})
        await leader.wire.send_request(*requests.invite(member.account, party))
        invites = (await member.wire.send_request("GET", "/party/invites")).json["invitations"]
        if party not in [invite["partyId"] for invite in invites]:
            raise PlayFailed("metagame", f"{member.name} did not get the party invite")
        await member.wire.send_request(*requests.accept(party))
    if not others:
        return party
    wanted = sorted(member.account for member in (leader, *others))
    for member in (leader, *others):
        party_view = (await member.wire.send_request("POST", "/party", {})).json
        if party_view["partyId"] != party or sorted(party_view["playerIds"]) != wanted:
            raise PlayFailed("metagame", f"{member.name} sees another party")
    return party


async def hunt(members: Sequence[Player], hunt_id: str) -> ServerAddress:
    """Start a hunt as the leader and make the others follow; return the game server."""
    leader, *others = members
    candidate = await leader.join("ISLAND", hunt_id)
    for member in others:
        party_view = (await member.wire.send_request("POST", "/party", {})).json
        if (party_view["candidateId"], party_view["playerHuntId"]) != (candidate, hunt_id):
            raise PlayFailed("metagame", f"{member.name} does not see their party's hunt")
        await follow(member, candidate)
    places = set()
    for member in members:
        places.add(await member.wait_for_server())
        member.hunting = True
    if len(places) != 1:
        raise PlayFailed("deploy", "one party was sent to several game servers")
    for member in members:
        await member.beat(f"/Game/Maps/islands/{hunt_id}")
    return places.pop()


async def go_home(members: Sequence[Player]) -> None:
    """Send the party back to the city, as the game does after every hunt."""
    leader, *others = members
    candidate = await leader.join("CITY")
    for member in others:
        await follow(member, candidate)
    for member in members:
        await member.wait_for_server()
        await member.beat(member.city)


async def disband(members: Sequence[Player]) -> None:
    """Make every member leave the party."""
    for member in members:
        await member.wire.send_request("DELETE", "/party/member")


async def found_guild(
    leader: Player, others: Sequence[Player], direct: HttpWire, key: str
) -> tuple[str, str]:
    """Create a guild as the game does; return its name and id.

    The client checks the name, and the game server creates the guild.
    """
    name = f"Evening{hex_token(4)}"
    await leader.wire.send_request(*requests.check_guild(name))
    await direct.send_request(
        *requests.found_guild(leader.account, name), headers={KEY_HEADER: key}
    )
    for member in others:
        await leader.wire.send_request(*requests.invite_to_guild(member.account))
        [invite] = (await member.wire.send_request("GET", "/guild/invite/player")).json["invites"]
        await member.wire.send_request(*requests.accept_guild(invite["id"]))
    wanted, ids = {member.account for member in (leader, *others)}, set()
    for member in (leader, *others):
        guild = (await member.wire.send_request("GET", "/guild")).json
        ids.add(str(guild["id"]))
        if guild["name"] != name or len(guild["members"]) != len(wanted) or len(ids) != 1:
            raise PlayFailed("metagame", f"{member.name} is not in the guild {name}")
        member.relations.guild, member.relations.fellows = str(guild["id"]), wanted
    return name, ids.pop()


async def link(first: Player, second: Player) -> str:
    """Create a slayer link by an invite and check it for both players; return the link's id."""
    call = requests.invite_to_link(second.account, FIRST_SLOT)
    invitation = (await first.wire.send_request(*call)).json["payload"]
    invites = (await second.wire.send_request("GET", "/slayerlink/invites")).json["payload"][
        "invites"
    ]
    made = str(invitation["link_id"])
    if made not in [invite["link_id"] for invite in invites]:
        raise PlayFailed("metagame", f"{second.name} did not get the slayer link's invite")
    await second.wire.send_request(*requests.answer_link(first.account, "accept", slot=FIRST_SLOT))
    for player, partner in ((first, second), (second, first)):
        links = (await player.wire.send_request("GET", "/slayerlink/links")).json["payload"][
            "links"
        ]
        if [(entry["account_id"], entry["link_id"]) for entry in links] != [
            (partner.account, made)
        ]:
            raise PlayFailed("metagame", f"{player.name} has no slayer link with {partner.name}")
        player.relations.links[partner.account] = made
    return made


async def shop(player: Player) -> str:
    """Send one purchase request twice, for a free item; check that the player got the item once."""
    offers = (
        await player.wire.send_request("GET", "/product/skus/public?requiredTags=webstore")
    ).json
    fitting = [
        entry for entry in offers if entry["remaining"] == 1 and len(entry["items"] or []) == 1
    ]
    if not fitting:
        raise PlayFailed("metagame", "the store (STORE=free) offers nothing")
    sku = str(fitting[0]["id"])
    item = str(fitting[0]["items"][0]["catalogId"])
    reply = (await player.wire.send_request("GET", f"/token/platinum/{sku}")).json
    for _ in range(2):
        await player.wire.send_request(*requests.buy(reply["purchaseToken"]), want=(204,))
    held = (
        await player.wire.send_request(*requests.inventory(player.account, player.character))
    ).json
    stacks = sum(entry["quantity"] for entry in held["stackedItems"] if entry["catalogId"] == item)
    single = [entry for entry in held["instancedItems"] if entry["catalogId"] == item]
    if stacks + len(single) != 1:
        count = stacks + len(single)
        raise PlayFailed("metagame", f"{player.name} bought {item} once and holds {count}")
    player.earned.add(
        {item: stacks} if stacks else {},
        {str(entry["instanceId"]): Item(item, entry["updateVersion"], None) for entry in single},
    )
    return item


@frozen
class Downloaded:
    """A game file that a player downloaded."""

    path: str
    body: bytes


async def download(player: Player) -> list[Downloaded]:
    """Download every file of the manifest and check its hash."""
    listed = (await player.wire.send_request("GET", "/content/v1/manifest")).json["files"]
    downloads = []
    for file in listed:
        path = f"/content/v1/files/{quote(file['path'])}"
        reply = await player.wire.send_request("GET", path, headers={ACCOUNT_KEY: player.key})
        if hashlib.sha256(reply.body).hexdigest() != file["sha256"]:
            raise PlayFailed("content", f"{file['path']} differs from the manifest")
        downloads.append(Downloaded(str(file["path"]), reply.body))
    if not downloads:
        raise PlayFailed("content", "the manifest lists no file")
    return downloads
