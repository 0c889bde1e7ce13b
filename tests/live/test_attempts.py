"""Two concurrent attempts of one request on two metagames: the request counts once.

Real processes are needed because the outcome depends on a unique key in PostgreSQL and on a
comparison in the engine.
"""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from svcserver.db.engine import database_url, make_engine
from svcserver.db.tables import METADATA
from svcserver.kernel import json
from tests.live.test_workers import workers
from tests.live.two_processes import SECRET, Both, Player, Reply, at_once, on_two_metagames
from tests.support.processes import bearer, register
from tests.support.valkey import fresh_url

pytestmark = pytest.mark.live
ROUNDS = 10
FRIENDS = "/friends/api/public/friends"


def marks(number: int, attempt: int) -> dict[str, str]:
    """Return the headers that the gateway adds to this attempt of a request."""
    result = {"x-svc-gateway": SECRET, "x-svc-request-id": f"{number:032x}"}
    return result | ({"x-svc-attempt": str(attempt)} if attempt > 1 else {})


@on_two_metagames
async def test_the_unique_id_decides_on_postgresql(both: Both) -> None:
    async def attempt(
        number: int, which: int, me: Player, method: str, path: str, body: Any = None
    ) -> Reply:
        headers = bearer(me) | marks(number, which)
        status, reply = await both.services[which % 2].ask(method, path, body, headers)
        return status, reply

    async def twice(number: int, me: Player, method: str, path: str, body: Any = None) -> Reply:
        request = me, method, path, body
        tries = (1, 2, 3) if number % 2 else (3, 2, 1)
        replies = await at_once(*(attempt(number, turn, *request) for turn in tries))
        first, second, third = (replies[tries.index(attempt)] for attempt in (1, 2, 3))
        assert second == third, (method, path, replies)
        # nobody receives the first reply, because its connection has ended
        assert first == second or first[0] in (404, 409)
        return second

    for number in range(0, ROUNDS * 10, 10):
        ann, bob = await both.player(), await both.player()
        character = (await both.good("GET", "/character", ann))[0]["id"]
        status, _ = await twice(number, ann, "POST", f"{FRIENDS}/{ann['id']}/{bob['id']}")
        assert status == 204
        await both.good("POST", f"{FRIENDS}/{bob['id']}/{ann['id']}", bob)
        link = {"account_id": bob["id"], "slot": 1}
        assert (await twice(number + 1, ann, "PUT", "/slayerlink/invite", link))[0] == 200
        assert (await twice(number + 2, ann, "PUT", "/character", {"name": "Two"}))[0] == 200
        save = {"characterId": character, "data": "{}", "updateVersion": 3}
        assert (await twice(number + 3, ann, "POST", "/character", save))[0] == 200
        slot = {"data": json.dump({"slot_index": 0}).decode()}
        path = f"/loadout/{ann['id']}/{character}/0"
        assert (await twice(number + 4, ann, "POST", path, slot))[0] == 200
        path = f"{FRIENDS}/{ann['id']}/{bob['id']}"
        assert (await twice(number + 5, ann, "DELETE", path))[0] == 204
        assert len(await both.good("GET", "/character", ann)) == 2
        assert await both.good("GET", f"{FRIENDS}/{ann['id']}?includePending=true", ann) == []
    engine = make_engine(database_url(both.database))
    with engine.connect() as tx:
        held = {
            name: len(tx.execute(select(METADATA.tables[name])).all()) for name in ROWS_PER_ROUND
        }
    engine.dispose()
    assert held == {name: count * ROUNDS for name, count in ROWS_PER_ROUND.items()}


# the rows of one round: a baseline, a second character and a save; a baseline and a save; results
ROWS_PER_ROUND = {"character_saves": 3, "loadout_saves": 2, "slayer_invites": 1, "attempts": 3}


def test_party_retries_on_two_workers_get_the_first_reply(tmp_path: Path) -> None:
    with workers(tmp_path, fresh_url(), GATEWAY_SECRET=SECRET) as both:
        ann, bob = (register(both.first, name) for name in ("Ann_1", "Bob_1"))
        for number in range(0, ROUNDS * 10, 10):
            leader = both.first.ask("POST", "/party", {}, bearer(ann))
            assert leader[0] == 200
            request = {"recipientPlayerId": bob["id"]}
            assert both.first.ask("PUT", "/party/invite", request, bearer(ann))[0] == 200
            accept = f"/party/invite/accept/{ann['id']}"
            replies = [
                game.ask("PUT", accept, {}, bearer(bob) | marks(number, attempt))
                for attempt, game in ((1, both.first), (2, both.second), (3, both.first))
            ]
            assert {status for status, _ in replies} == {200}
            assert len({body for _, body in replies}) == 1
            kick = f"/party/member/{bob['id']}"
            for attempt, game in ((1, both.first), (2, both.second)):
                marked = bearer(ann) | marks(number + 1, attempt)
                assert game.ask("DELETE", kick, None, marked)[0] == 200
            assert both.first.ask("DELETE", kick, None, bearer(ann))[0] == 404
