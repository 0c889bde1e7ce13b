"""Concurrent social requests on a real database: one succeeds, others get the right error code.

Spec: 1 §4 Parties, Friends, Guilds, Slayer links; §7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from pytest_twisted import ensureDeferred
from twisted.internet.defer import Deferred, gatherResults

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.metagame.accounts.store import add_game_server_key
from tests.support.game import GAME_SERVER_KEY
from tests.support.isolates import isolates
from tests.support.joined import Joined, joined_metagame, register
from tests.support.postgres import fresh_database
from tests.support.processes import bearer
from tests.support.proves import proves

pytestmark = pytest.mark.live
Player = dict[str, str]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: Any, tmp_path: Path) -> str:
    """Return the URL of a database with all tables and the game-server key."""
    url = fresh_database() if request.param == "postgres" else f"sqlite:///{tmp_path}/svc.db"
    engine = make_engine(database_url(url))
    migrations.upgrade(engine)
    with engine.begin() as tx:
        add_game_server_key(tx, GAME_SERVER_KEY)
    engine.dispose()
    return url


def on_a_metagame(test: Callable[[Joined], Awaitable[None]]) -> Callable[[Path, str], Any]:
    """Run the test on its own metagame, once for each database.

    This is no fixture, because pytest-twisted's asynchronous fixtures do not run with this version
    of pytest.
    """

    async def run(tmp_path: Path, database: str) -> None:
        settings = {"DATABASE_URL": database, "GUILD_MAX_MEMBERS": "2", "LOG_LEVEL": "warn"}
        async with joined_metagame(tmp_path, **settings) as service:
            await test(service)

    run.__name__, run.__doc__ = getattr(test, "__name__", "test"), test.__doc__
    twisted: Callable[[Path, str], Any] = ensureDeferred(run)
    return twisted


async def at_once(
    count: int, act: Callable[[int], Awaitable[tuple[int, bytes]]]
) -> Counter[tuple[int, str]]:
    """Send all requests concurrently; return the count of each status and code."""

    async def act_once(number: int) -> tuple[int, str]:
        status, body = await act(number)
        reply = orjson.loads(body) if body else {}
        return status, str(reply.get("code", "")).removesuffix("AdorableQuillshot")

    return Counter(
        await gatherResults([Deferred.fromCoroutine(act_once(number)) for number in range(count)])
    )


async def call(service: Joined, method: str, path: str, by: Player, body: Any = None) -> Any:
    status, reply = await service.ask(method, path, body, bearer(by))
    assert 200 <= status < 300, (path, status, reply)
    return orjson.loads(reply) if reply else None


async def create_guild(service: Joined, leader: Player, name: str) -> tuple[int, bytes]:
    body = {"leader_account_id": leader["id"], "name": name, "nameplate": ""}
    return await service.ask("POST", "/guild", body, {"x-svc-gameserver-apikey": GAME_SERVER_KEY})


async def befriend(service: Joined, first: Player, others: Sequence[Player]) -> None:
    for friend in others:
        for a, b in ((first, friend), (friend, first)):
            await call(service, "POST", f"/friends/api/public/friends/{a['id']}/{b['id']}", a)


@isolates("social/guilds: accept")
@proves("POST /guild/invite/accept/:inviteId")
@on_a_metagame
async def test_one_of_twenty_accepts_takes_the_last_place_of_a_guild(service: Joined) -> None:
    leader, *others = [await register(service, f"player_{number}") for number in range(21)]
    await call(service, "POST", "/guild/validate", leader, {"name": "Slayers"})
    assert (await create_guild(service, leader, "Slayers"))[0] == 200
    paths = []
    for friend in others:
        await call(service, "PUT", f"/guild/invite/{friend['id']}", leader)
        [invite] = (await call(service, "GET", "/guild/invite/player", friend))["invites"]
        paths.append(f"/guild/invite/accept/{invite['id']}")
    replies = await at_once(20, lambda n: service.ask("POST", paths[n], None, bearer(others[n])))
    assert replies == {(200, "OK"): 1, (409, "Stuffed"): 19}
    assert len((await call(service, "GET", "/guild", leader))["members"]) == 2


@proves("POST /guild")
@on_a_metagame
async def test_one_of_ten_leaders_founds_a_guild_of_one_name(service: Joined) -> None:
    leaders = [await register(service, f"player_{number}") for number in range(10)]
    for leader in leaders:
        await call(service, "POST", "/guild/validate", leader, {"name": "SLAYERS"})
    names = ("Slayers", "sLAYERS")
    replies = await at_once(10, lambda n: create_guild(service, leaders[n], names[n % 2]))
    assert replies == {(200, "OK"): 1, (409, "Seized"): 9}


@isolates("social/guilds: create_guild")
@proves("create 3 and 4: not in a guild, name rules, one in ten minutes")
@on_a_metagame
async def test_one_leader_founds_at_most_one_guild(service: Joined) -> None:
    leader = await register(service, "Ann")
    for number in range(5):
        await call(service, "POST", "/guild/validate", leader, {"name": f"Guild{number}"})
    replies = await at_once(5, lambda n: create_guild(service, leader, f"Guild{n}"))
    assert replies[200, "OK"] == 1
    assert replies[409, "Occupied"] + replies[429, ""] + replies[403, ""] == 4


@proves("POST /guild/invite/accept/:inviteId")
@on_a_metagame
async def test_five_guild_invites_accepted_at_once_join_one_guild(service: Joined) -> None:
    player, *leaders = [await register(service, f"player_{number}") for number in range(6)]
    for number, leader in enumerate(leaders):
        await call(service, "POST", "/guild/validate", leader, {"name": f"Guild{number}"})
        assert (await create_guild(service, leader, f"Guild{number}"))[0] == 200
        await call(service, "PUT", f"/guild/invite/{player['id']}", leader)
    invites = (await call(service, "GET", "/guild/invite/player", player))["invites"]
    paths = [f"/guild/invite/accept/{invite['id']}" for invite in invites]
    replies = await at_once(5, lambda n: service.ask("POST", paths[n], None, bearer(player)))
    assert replies == {(200, "OK"): 1, (404, "Uninvited"): 4}
    sizes = [len((await call(service, "GET", "/guild", leader))["members"]) for leader in leaders]
    assert sorted(sizes) == [1, 1, 1, 1, 2]


@isolates("social/friends: request")
@proves("state: Friend request")
@on_a_metagame
async def test_simultaneous_mutual_requests_make_two_players_friends(service: Joined) -> None:
    for number in range(5):
        pair = [await register(service, f"{name}_{number}") for name in ("ann", "bob")]
        ids = [player["id"] for player in pair]
        paths = [f"/friends/api/public/friends/{a}/{b}" for a, b in (ids, ids[::-1])]

        async def ask(
            n: int, paths: list[str] = paths, pair: list[Player] = pair
        ) -> tuple[int, bytes]:
            return await service.ask("POST", paths[n], None, bearer(pair[n]))

        assert await at_once(2, ask) == {(204, ""): 2}
        for player in pair:
            path = f"/friends/api/public/friends/{player['id']}"
            [entry] = await call(service, "GET", path, player)
            assert entry["status"] == "ACCEPTED"


@isolates("social/slayerlinks: invite")
@proves("PUT /slayerlink/invite")
@on_a_metagame
async def test_a_slot_holds_one_of_four_invites(service: Joined) -> None:
    player, *others = [await register(service, f"player_{number}") for number in range(5)]
    await befriend(service, player, others)
    bodies = [{"account_id": friend["id"], "slot": 2} for friend in others]
    replies = await at_once(
        4, lambda n: service.ask("PUT", "/slayerlink/invite", bodies[n], bearer(player))
    )
    assert replies == {(200, "None"): 1, (409, "409"): 3}
    status = (await call(service, "GET", "/slayerlink/status_good", player))["payload"]
    assert len(status["invites"]) == 1


@isolates("social/slayerlinks: answer")
@proves("POST /slayerlink/invite")
@on_a_metagame
async def test_four_accept_at_once_and_never_share_a_slot(service: Joined) -> None:
    player, *others = [await register(service, f"player_{number}") for number in range(5)]
    await befriend(service, player, others)
    for friend in others:
        body = {"account_id": player["id"], "slot": 1}
        await call(service, "PUT", "/slayerlink/invite", friend, body)
    bodies = [{"account_id": entry["id"], "slot": 1, "action": "accept"} for entry in others]
    replies = await at_once(
        4, lambda n: service.ask("POST", "/slayerlink/invite", bodies[n], bearer(player))
    )
    assert replies == {(200, "None"): 3, (409, "409"): 1}
    links = (await call(service, "GET", "/slayerlink/links", player))["payload"]["links"]
    assert [entry["slot"] for entry in links] == [1, 2, 3]


@proves("PUT /party/invite/accept/:inviteId")
@on_a_metagame
async def test_three_of_seven_accepts_take_the_last_places_of_a_party(service: Joined) -> None:
    leader, *others = [await register(service, f"player_{number}") for number in range(8)]
    party_id = (await call(service, "POST", "/party", leader, {}))["partyId"]
    for friend in others:
        await call(service, "PUT", "/party/invite", leader, {"recipientPlayerId": friend["id"]})
    path = f"/party/invite/accept/{party_id}"
    replies = await at_once(7, lambda n: service.ask("PUT", path, {}, bearer(others[n])))
    assert replies == {(200, ""): 3, (409, ""): 4}
    assert len((await call(service, "POST", "/party", leader, {}))["playerIds"]) == 4
