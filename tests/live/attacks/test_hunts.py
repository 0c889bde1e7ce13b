"""One player who wants every hunt port. Spec: 1 §4 Matchmaking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.live.deploying import deploy, servers
from tests.support.processes import (
    Service,
    bearer,
    eventually,
    free_port,
    metagame,
    register,
)

pytestmark = pytest.mark.live

TUTORIAL = {
    "gameMode": "ISLAND",
    "gameArgs": "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=",
    "playerHuntId": "",
}
ASKS = 6  # as many as there are hunt ports


@contextmanager
def host(folder: Path) -> Iterator[tuple[Service, Service]]:
    """A metagame, and the deploy server it asks."""
    with (
        deploy(folder, SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP="0") as games,
        metagame(
            folder,
            MATCHMAKING_MODE="DEPLOYSERVER",
            DEPLOYSERVER_URL=f"127.0.0.1:{games.port}",
        ) as players,
    ):
        yield players, games


def hunts(games: Service) -> list[dict[str, Any]]:
    return [one for one in servers(games) if one["kind"] != "city"]


def join(players: Service, player: dict[str, str], wish: dict[str, str]) -> dict[str, Any]:
    status, said = players.ask("POST", "/candidate/join", wish, bearer(player))
    assert status == 200, said
    found: dict[str, Any] = orjson.loads(said)
    return found


def place(players: Service, player: dict[str, str]) -> Any:
    said = orjson.loads(players.ask("GET", "/candidate/status", None, bearer(player))[1])
    return said.get("serverInfo", {}).get("port")


def test_one_player_gets_one_game_server_and_leaves_the_other_ports(tmp_path: Path) -> None:
    with host(tmp_path) as (players, games):
        greedy, other = (register(players, name) for name in ("greedy", "other"))
        said = [join(players, greedy, TUTORIAL) for _ in range(ASKS)]
        assert {one["status"] for one in said} == {"MATCHING"}
        assert len({one["candidateId"] for one in said}) == 1
        first = eventually(lambda: place(players, greedy))
        assert [one["port"] for one in hunts(games)] == [first]
        join(players, other, TUTORIAL)
        second = eventually(lambda: place(players, other))
        assert {one["port"] for one in hunts(games)} == {first, second}


def test_saying_one_is_in_the_city_starts_no_second_one_either(tmp_path: Path) -> None:
    with host(tmp_path) as (players, games):
        greedy = register(players, "greedy")
        for _ in range(ASKS):
            join(players, greedy, TUTORIAL)
            join(players, greedy, {"gameMode": "CITY", "gameArgs": "", "playerHuntId": ""})
        assert len(hunts(games)) == 1


def test_a_hunt_that_has_ended_makes_room_for_the_next_at_once(tmp_path: Path) -> None:
    brief = {"GAMESERVER_ARGS": "-sim-idle=1", "SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP": "0"}
    port = free_port()
    with (
        deploy(tmp_path, **brief, SVC_METAGAME_URL=f"http://127.0.0.1:{port}") as games,
        metagame(
            tmp_path,
            MATCHMAKING_MODE="DEPLOYSERVER",
            DEPLOYSERVER_URL=f"127.0.0.1:{games.port}",
        ) as players,
    ):
        player = register(players, "hunter")
        seen = set()
        for _ in range(3):
            seen.add(join(players, player, TUTORIAL)["candidateId"])
            eventually(lambda: place(players, player))
            eventually(lambda: not hunts(games))
        assert len(seen) == 3
