"""Transactions on several accounts, each run concurrently with changes that could interfere.

Two metagame processes share one PostgreSQL. docs/contributors/transactions.md lists the
transactions; ``@isolates`` names those that a test proves. Each test checks the result at both
processes.
"""

import pytest

from tests.live.two_processes import ROUNDS, Both, Player, at_once, on_two_metagames, statuses
from tests.support.isolates import isolates

pytestmark = pytest.mark.live
API = "/svc/api"
ALL = "?includePending=true"


def friends_path(me: Player, second: Player | None = None) -> str:
    end = f"/{second['id']}" if second else ""
    return f"/friends/api/public/friends/{me['id']}{end}"


def block_path(me: Player, second: Player) -> str:
    return f"/friends/api/public/blocklist/{me['id']}/{second['id']}"


async def rows_between(both: Both, first: Player, second: Player) -> list[str]:
    """Return the friend status of two players; both must see the same on both processes."""
    view = [
        [entry["status"] for entry in await both.good("GET", f"{friends_path(me)}{ALL}", me, at=at)]
        for me in (first, second)
        for at in range(2)
    ]
    assert view.count(view[0]) == 4, view
    return view[0]


@isolates("social/friends: request", "social/friends: block")
@on_two_metagames
async def test_a_friend_request_during_a_block_leaves_no_request(both: Both) -> None:
    async for ann, bob in both.pairs():
        replies = await at_once(
            both.call("POST", friends_path(ann, bob), ann),
            both.call("POST", block_path(bob, ann), bob, at=1),
        )
        assert statuses(replies)[0] == 204
        assert await rows_between(both, ann, bob) == []


@isolates("social/friends: request", "social/friends: unfriend")
@on_two_metagames
async def test_an_accept_during_an_unfriending_leaves_no_half_friendship(both: Both) -> None:
    async for ann, bob in both.pairs():
        await both.good("POST", friends_path(ann, bob), ann)
        replies = await at_once(
            both.call("POST", friends_path(bob, ann), bob),
            both.call("DELETE", friends_path(ann, bob), ann, at=1),
        )
        statuses(replies)
        assert await rows_between(both, ann, bob) in ([], ["PENDING"])


@isolates("social/friends: unblock", "social/friends: request")
@on_two_metagames
async def test_a_request_during_an_unblocking_is_kept_or_refused(both: Both) -> None:
    async for ann, bob in both.pairs():
        await both.good("POST", block_path(bob, ann), bob)
        request, lifted = await at_once(
            both.call("POST", friends_path(ann, bob), ann),
            both.call("DELETE", block_path(bob, ann), bob, at=1),
        )
        assert (request[0] in (204, 403), lifted[0]) == (True, 204)
        stored = ["PENDING"] if request[0] == 204 else []
        assert await rows_between(both, ann, bob) == stored


# -- guilds ---------------------------------------------------------------------


async def guild_of(both: Both, leader: Player) -> str:
    """Create a guild with one member."""
    name = leader["name"].replace("player_", "Guild")
    await both.good("POST", "/guild/validate", leader, {"name": name})
    assert (await both.create_guild(leader, name))[0] == 200
    return name


async def invited(both: Both, leader: Player, second: Player) -> str:
    """Create an invite and return its id."""
    await both.good("PUT", f"/guild/invite/{second['id']}", leader)
    invites = (await both.good("GET", "/guild/invite/player", second))["invites"]
    return str(invites[0]["id"])


async def joined(both: Both, leader: Player, second: Player) -> None:
    invite = await invited(both, leader, second)
    await both.good("POST", f"/guild/invite/accept/{invite}", second)


async def ranks(both: Both, player: Player) -> dict[str, str]:
    """Return a dict from each member of the player's guild, if any, to the member's rank.

    Fail unless both processes give the same ranks.
    """
    replies = [await both.call("GET", "/guild", player, at=at) for at in range(2)]
    result = [
        {entry["phx_account_id"]: str(entry["rank"]) for entry in (body or {}).get("members", ())}
        for status, body in replies
    ]
    assert result[0] == result[1]
    return result[0]


@isolates("social/guilds: create_guild")
@on_two_metagames
async def test_simultaneous_foundings_under_a_name_make_one_guild(both: Both) -> None:
    for _ in range(ROUNDS):
        leaders = await both.players(4)
        name = leaders[0]["name"].replace("player_", "Guild")
        for at, leader in enumerate(leaders):
            await both.good("POST", "/guild/validate", leader, {"name": name}, at=at)
        replies = await at_once(
            *(both.create_guild(first, name, at) for at, first in enumerate(leaders))
        )
        assert statuses(replies) == [200, 409, 409, 409]


@isolates("social/guilds: invite")
@on_two_metagames
async def test_simultaneous_guild_invites_to_a_player_make_one_invite(both: Both) -> None:
    async for leader, pair in both.pairs():
        await guild_of(both, leader)
        path = f"/guild/invite/{pair['id']}"
        replies = await at_once(*(both.call("PUT", path, leader, at=at) for at in range(4)))
        assert statuses(replies) == [200, 409, 409, 409]
        assert len((await both.good("GET", "/guild/invite/player", pair, at=1))["invites"]) == 1


@isolates("social/guilds: accept")
@on_two_metagames
async def test_simultaneous_accepts_never_overfill_a_guild(both: Both) -> None:
    for _ in range(ROUNDS):
        leader, *others = await both.players(5)
        await guild_of(both, leader)
        ids = [await invited(both, leader, friend) for friend in others]
        replies = await at_once(
            *(
                both.call("POST", f"/guild/invite/accept/{invite}", friend, at=at)
                for at, (invite, friend) in enumerate(zip(ids, others, strict=True))
            )
        )
        assert statuses(replies) == [200, 200, 409, 409]
        assert len(await ranks(both, leader)) == 3


@isolates("social/guilds: accept", "social/guilds: decline")
@on_two_metagames
async def test_an_invite_is_accepted_or_declined(both: Both) -> None:
    async for leader, pair in both.pairs():
        await guild_of(both, leader)
        invite = await invited(both, leader, pair)
        accepted, declined = await at_once(
            both.call("POST", f"/guild/invite/accept/{invite}", pair),
            both.call("DELETE", f"/guild/invite/{invite}", pair, at=1),
        )
        assert sorted((accepted[0], declined[0])) == [200, 404]
        assert (pair["id"] in await ranks(both, leader)) == (accepted[0] == 200)


@isolates("social/guilds: remove", "social/guilds: set_rank")
@on_two_metagames
async def test_a_promotion_and_a_leave_at_once_keep_one_guild_leader(both: Both) -> None:
    async for leader, pair in both.pairs():
        await guild_of(both, leader)
        await joined(both, leader, pair)
        replies = await at_once(
            both.call("PUT", f"/guild/rank/{pair['id']}/LEADER", leader),
            both.call("DELETE", "/guild/player", pair, at=1),
        )
        statuses(replies)
        members = {**await ranks(both, leader), **await ranks(both, pair)}
        assert sum(rank.upper() == "LEADER" for rank in members.values()) == 1, (members, replies)


@isolates("social/guilds: disband", "social/guilds: disband_named", "social/guilds: accept")
@on_two_metagames
async def test_an_accept_during_a_disbanding_leaves_nobody_in_the_guild(both: Both) -> None:
    for number in range(2 * ROUNDS):
        leader, second = await both.players(2)
        name = await guild_of(both, leader)
        invite = await invited(both, leader, second)
        guild = (await both.good("GET", "/guild", leader))["id"]
        ended = (
            both.call("POST", f"{API}/DisbandGuild", body={"Guild": name}, at=1)
            if number % 2
            else both.call("DELETE", f"/guild/{guild}", leader, at=1)
        )
        replies = await at_once(both.call("POST", f"/guild/invite/accept/{invite}", second), ended)
        assert replies[1][0] == 200, replies
        for first in (leader, second):
            assert await ranks(both, first) == {}
        await guild_of(both, second)  # the player can join another guild


# -- slayer links ----------------------------------------------------------------


async def befriended(both: Both, first: Player, second: Player) -> None:
    await both.good("POST", friends_path(first, second), first)
    await both.good("POST", friends_path(second, first), second)


async def linked(both: Both, first: Player, second: Player) -> bool:
    """Return whether two players are linked; both players must see the same at both processes."""
    replies = [
        len((await both.good("GET", "/slayerlink/links", me, at=at))["payload"]["links"])
        for me in (first, second)
        for at in range(2)
    ]
    assert replies in ([0] * 4, [1] * 4), replies
    return bool(replies[0])


@isolates("social/slayerlinks: invite")
@on_two_metagames
async def test_a_slot_holds_one_invite(both: Both) -> None:
    for _ in range(2):
        first, *others = await both.players(4)
        for friend in others:
            await befriended(both, first, friend)
        replies = await at_once(
            *(
                both.call(
                    "PUT", "/slayerlink/invite", first, {"account_id": two["id"], "slot": 1}, at
                )
                for at, two in enumerate(others)
            )
        )
        assert statuses(replies) == [200, 409, 409]


@isolates("social/slayerlinks: answer", "social/slayerlinks: drop_invites")
@on_two_metagames
async def test_a_link_is_there_for_both_or_for_nobody(both: Both) -> None:
    async for pair, item in both.pairs():
        await befriended(both, pair, item)
        request = {"account_id": item["id"], "slot": 1}
        await both.good("PUT", "/slayerlink/invite", pair, request)
        accept = {"account_id": pair["id"], "slot": 1, "action": "accept"}
        accepted, _ = await at_once(
            both.call("POST", "/slayerlink/invite", item, accept),
            both.call("DELETE", f"/slayerlink/invites/{item['id']}", pair, at=1),
        )
        assert await linked(both, pair, item) == (accepted[0] == 200)
        status = (await both.good("GET", "/slayerlink/status_good", item))["payload"]
        assert status["invites"] == []


@isolates("social/slayerlinks: end_link", "social/slayerlinks: answer")
@on_two_metagames
async def test_a_link_ends_for_both_and_its_slots_are_free(both: Both) -> None:
    async for pair, item in both.pairs():
        await befriended(both, pair, item)
        await both.good("PUT", "/slayerlink/invite", pair, {"account_id": item["id"], "slot": 1})
        accept = {"account_id": pair["id"], "slot": 1, "action": "accept"}
        await both.good("POST", "/slayerlink/invite", item, accept)
        replies = await at_once(
            both.call("DELETE", "/slayerlink/links", pair, {"account_id": item["id"]}),
            both.call("DELETE", "/slayerlink/links", item, {"account_id": pair["id"]}, at=1),
        )
        assert statuses(replies)[0] == 200
        assert not await linked(both, pair, item)
