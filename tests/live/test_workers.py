"""Two metagames with equal keys, one database and one engine are one game."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import frozen

from tests.support.postgres import fresh_database
from tests.support.processes import Service, bearer, metagame, register
from tests.support.valkey import fresh_url

pytestmark = pytest.mark.live


@frozen
class Workers:
    """The two."""

    one: Service
    other: Service


@contextmanager
def workers(folder: Path, live_url: str, **environ: str) -> Iterator[Workers]:
    """Two that run."""
    shared = {"DATABASE_URL": fresh_database(), "LIVE_URL": live_url, **environ}
    with ExitStack() as stack:
        made = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            made.append(stack.enter_context(metagame(folder / name, **shared)))
        yield Workers(*made)


def asked(service: Service, method: str, path: str, by: dict[str, str], body: Any = None) -> Any:
    """The status and the parsed body of a player's request."""
    status, said = service.ask(method, path, body, headers=bearer(by))
    return status, orjson.loads(said) if said[:1] in b"{[" else said


def test_two_processes_are_one_game(tmp_path: Path) -> None:
    with workers(tmp_path, fresh_url()) as both:
        ann, bob = register(both.one, "Ann_1"), register(both.other, "Bob_1")
        _, mine = asked(both.one, "POST", "/party", ann, {})
        wish = {"recipientPlayerId": bob["id"]}
        assert asked(both.one, "PUT", "/party/invite", ann, wish)[0] == 200
        _, seen = asked(both.other, "GET", "/party/invites", bob)
        assert [one["partyId"] for one in seen["invitations"]] == [mine["partyId"]]
        accept = f"/party/invite/accept/{mine['partyId']}"
        status, joined = asked(both.other, "PUT", accept, bob, {})
        assert status == 200
        assert joined["partyId"] == mine["partyId"]
        assert (
            asked(both.one, "POST", "/party", ann, {})[1]
            == asked(both.other, "POST", "/party", ann, {})[1]
        )
        assert asked(both.one, "POST", "/heartbeat", ann, {})[0] == 200
        key = {"x-svc-user-api-key": ann["key"]}
        status, said = both.other.ask("GET", "/svc/api/PublicOnlineStats", headers=key)
        assert (status, orjson.loads(said)) == (200, {"NumActivePlayers": 1})
