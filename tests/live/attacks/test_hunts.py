"""A player who tries to occupy every port for hunts. Spec: 1 §4 Matchmaking.

Real processes are needed because game servers are child processes of the deploy server.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.live.deploying import deploy, servers
from tests.support.processes import Service, bearer, eventually, free_port, metagame, register

pytestmark = pytest.mark.live

TUTORIAL = {
    "gameMode": "ISLAND",
    "gameArgs": "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=",
    "playerHuntId": "",
}
CITY = {"gameMode": "CITY", "gameArgs": "", "playerHuntId": ""}
HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "CR19_PlayerHunt_Patrol_Flame"}
COOLDOWN_S = 1
ASKS = 6  # as many as there are hunt ports


@contextmanager
def host(folder: Path, cooldown_s: int = 60) -> Iterator[tuple[Service, Service]]:
    """Start a metagame and the deploy server that it uses."""
    with (
        deploy(folder, SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP="0") as games,
        metagame(
            folder,
            MATCHMAKING_MODE="DEPLOYSERVER",
            DEPLOYSERVER_URL=f"127.0.0.1:{games.port}",
            MATCHMAKING_LAUNCH_COOLDOWN_S=str(cooldown_s),
        ) as players,
    ):
        yield players, games


def hunts(games: Service) -> list[dict[str, Any]]:
    return [game for game in servers(games) if game["kind"] != "city"]


def join(players: Service, player: dict[str, str], request: dict[str, str]) -> dict[str, Any]:
    status, body = players.ask("POST", "/candidate/join", request, bearer(player))
    assert status == 200, body
    document: dict[str, Any] = orjson.loads(body)
    return document


def place(players: Service, player: dict[str, str]) -> Any:
    replies = orjson.loads(players.ask("GET", "/candidate/status", None, bearer(player))[1])
    return replies.get("serverInfo", {}).get("port")


def test_one_player_gets_one_game_server_and_leaves_the_other_ports(tmp_path: Path) -> None:
    with host(tmp_path) as (players, games):
        greedy, another = (register(players, name) for name in ("greedy", "other"))
        replies = [join(players, greedy, TUTORIAL) for _ in range(ASKS)]
        assert {reply["status"] for reply in replies} == {"MATCHING"}
        assert len({reply["candidateId"] for reply in replies}) == 1
        first = eventually(lambda: place(players, greedy))
        assert [reply["port"] for reply in hunts(games)] == [first]
        join(players, another, TUTORIAL)
        second = eventually(lambda: place(players, another))
        assert {reply["port"] for reply in hunts(games)} == {first, second}


def test_joining_hunt_and_city_repeatedly_starts_one_hunt_server(tmp_path: Path) -> None:
    with host(tmp_path) as (players, games):
        greedy = register(players, "greedy")
        for _ in range(ASKS):
            join(players, greedy, TUTORIAL)
            join(players, greedy, CITY)
        assert len(hunts(games)) == 1


def ask_again(players: Service, everyone: list[dict[str, str]]) -> None:
    """Make each player go to the city and, after the cooldown, request a private tutorial."""
    for player in everyone:
        join(players, player, CITY)
        players.ask("POST", "/heartbeat", {"map": "a_01_persistent"}, bearer(player))
    over = time.monotonic() + COOLDOWN_S * 1.2
    eventually(lambda: time.monotonic() > over)
    for player in everyone:
        join(players, player, TUTORIAL)
        place(players, player)


def test_repeated_requests_after_the_cooldown_add_no_game_server(tmp_path: Path) -> None:
    with host(tmp_path, COOLDOWN_S) as (players, games):
        three = [register(players, f"greedy_{n}") for n in range(3)]
        for _ in range(3):
            ask_again(players, three)
        assert len(eventually(lambda: hunts(games))) == 3


def test_a_party_gets_at_most_one_game_server_per_member(tmp_path: Path) -> None:
    with host(tmp_path, COOLDOWN_S) as (players, games):
        leader, *members = three = [register(players, f"greedy_{n}") for n in range(3)]
        party = [
            orjson.loads(players.ask("POST", "/party", {}, bearer(member))[1]) for member in three
        ]
        for player in members:
            invite = {"recipientPlayerId": player["id"]}
            assert players.ask("PUT", "/party/invite", invite, bearer(leader))[0] == 200
            path = f"/party/invite/accept/{party[0]['partyId']}"
            assert players.ask("PUT", path, {}, bearer(player))[0] == 200
        join(players, leader, HUNT)
        assert len({eventually(partial(place, players, member)) for member in three}) == 1
        assert len(hunts(games)) == 1
        for _ in range(3):
            ask_again(players, three)
        assert 1 <= len(hunts(games)) <= 3


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
        known = set()
        for _ in range(3):
            known.add(join(players, player, TUTORIAL)["candidateId"])
            eventually(lambda: place(players, player))
            eventually(lambda: not hunts(games))
        assert len(known) == 3
