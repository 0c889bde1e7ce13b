"""The deploy server as a process, with simulated game servers: no port, process or file leaks.

Spec: 2 §3 Game server process, §4 Deploy server. Real processes are needed because the tests check
the start and the end of child processes.
"""

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.metagame.accounts.store import add_game_server_key
from tests.live.deploying import CITY, HUNT, PATH, SIMULATOR, deploy, hand_out, is_bound, servers
from tests.support.game import GAME_SERVER_KEY
from tests.support.processes import (
    Service,
    bearer,
    eventually,
    free_port,
    metagame,
    metagame_environ,
    register,
)
from tests.support.proves import proves

pytestmark = pytest.mark.live

DEADLINE_S = 10.0  # for a running game server to answer


def children(service: Service) -> list[int]:
    assert service.process is not None
    pid = service.process.pid
    return [int(entry) for entry in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def open_files(service: Service) -> int:
    assert service.process is not None
    return len(os.listdir(f"/proc/{service.process.pid}/fd"))


def answered(port: int) -> bytes:
    """Return the game server's reply to a player; empty if no server listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as player:
        player.settimeout(DEADLINE_S)
        player.connect(("127.0.0.1", port))
        try:
            player.send(b"hello")
            return player.recv(2048)
        except OSError:
            return b""


@proves(
    "deploy: 403 for callers not on loopback or with a proxy header",
    "deploy: POST /api/matchmaker/handle-matchmaking-for-player",
    "deploy: binds 127.0.0.1 by default",
)
def test_the_city_of_the_boot_is_handed_out_and_answers_players(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        status, body = hand_out(service, CITY)
        assert (status, body["host"]) == (200, "127.0.0.1")
        assert body["port"] == int(service.environ["PORT_RANGE_END"])
        assert b"a_01_persistent hello" in eventually(lambda: answered(body["port"]))
        [record] = servers(service)
        assert (record["kind"], record["map"], record["maxPlayers"]) == (
            "city",
            "/Game/Maps/city/a_01_persistent",
            None,
        )
        assert "ready on 127.0.0.1" in service.log
        assert GAME_SERVER_KEY not in service.log
        for name in ("Via", "Forwarded", "X-Forwarded-For", "X-Svc-Gateway"):
            assert service.ask("POST", PATH, CITY, {name: "x"}) == (403, b"")
            assert service.ask("GET", "/gameservers", None, {name: "x"}) == (403, b"")


@proves("deploy: a dead city or dojo is started again before it is handed out, through one launch")
def test_a_city_killed_twenty_times_comes_back_each_time(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        known = set()
        for _ in range(20):
            status, body = hand_out(service, CITY)
            assert (status, body["port"]) == (200, int(service.environ["PORT_RANGE_END"]))
            [record] = servers(service)
            known.add(record["id"])
            [pid] = children(service)
            os.kill(pid, signal.SIGKILL)
            eventually(lambda pid=pid: is_dead(pid))  # a zombie, reaped or not
        assert len(known) == 20
        assert hand_out(service, CITY)[0] == 200
        assert len(children(service)) == 1


@proves(
    "no orphan, no leak",
    "deploy: 503 capacity_unavailable, reason memory or ports, Retry-After: 10",
)
# slow: forty processes, a few at a time
def test_forty_hunts_come_and_go_and_leave_nothing(tmp_path: Path) -> None:
    with deploy(tmp_path, HUNT_WORKER="1", GAMESERVER_ARGS="-sim-idle=0.1") as service:
        assert hand_out(service, HUNT)[0] == 200
        eventually(lambda: not servers(service) and not children(service))
        # including the files that the very first launch opens and keeps open
        before = open_files(service)
        started = 0
        while started < 40:
            status, body = hand_out(service, HUNT)
            if status == 200:
                started += 1
                continue
            assert (status, body) == (503, {"error": "capacity_unavailable", "reason": "ports"})
            eventually(lambda: len(servers(service)) < 6)
        eventually(lambda: not servers(service) and not children(service), 60)
        eventually(lambda: open_files(service) <= before)
        last = int(service.environ["PORT_RANGE_END"])
        assert not any(is_bound(port) for port in range(last - 7, last + 1))


@proves("no orphan, no leak")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "restarted"])
def test_a_restarted_deploy_server_adopts_running_hunts(
    how: signal.Signals, tmp_path: Path
) -> None:
    with deploy(tmp_path) as service:
        city = hand_out(service, CITY)[1]["port"]
        hunt = hand_out(service, HUNT)[1]["port"]
        eventually(lambda: answered(city) and answered(hunt))
        before = {server["id"]: server for server in servers(service)}
        pids = sorted(children(service))
        service.stop(how)
        assert answered(city) and answered(hunt)
        service.start()
        assert {server["id"]: server for server in servers(service)} == before
        assert hand_out(service, CITY) == (200, {"host": "127.0.0.1", "port": city})
        second = hand_out(service, HUNT)[1]["port"]
        assert second not in (city, hunt)
        assert answered(city) and answered(hunt)
        os.kill(pids[0], signal.SIGTERM)  # the end is noticed, and the last output is kept
        eventually(lambda: len(servers(service)) == 2)
        service.stop()
        assert [is_dead(pid) for pid in pids] == [True, True]
        assert not any(is_bound(port) for port in (city, hunt, second))
    assert list((tmp_path / "gameserver-state").glob("*.json")) == []


def test_a_process_that_has_the_id_of_a_game_server_is_left_alone(tmp_path: Path) -> None:
    with deploy(tmp_path, HUNT_WORKER="1") as service:
        hand_out(service, HUNT)
        [pid] = children(service)
        service.stop(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        with subprocess.Popen(["sleep", "60"]) as stranger:
            [note] = (tmp_path / "gameserver-state").glob("*.json")
            note.write_text(note.read_text().replace(f'"pid":{pid}', f'"pid":{stranger.pid}'))
            service.start()
            assert servers(service) == []
            assert stranger.poll() is None
            stranger.kill()


@proves("no orphan, no leak")
def test_a_stop_ends_every_game_server(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        ports = [hand_out(service, body)[1]["port"] for body in (CITY, HUNT, HUNT)]
        eventually(lambda: all(answered(port) for port in ports))
        assert service.stop() in (0, -signal.SIGTERM)  # twistd ends by the signal it got
        assert not any(is_bound(port) for port in ports)


@proves("readiness by file or grace, off by default")
def test_a_server_that_is_never_ready_is_not_handed_out(tmp_path: Path) -> None:
    proofs = tmp_path / "proofs"
    proofs.mkdir(mode=0o700)
    environ = {"HUNT_WORKER": "1", "GAMESERVER_READY_DIR": str(proofs)}
    with deploy(tmp_path, **environ, GAMESERVER_ARGS="-sim-exit=3") as service:
        assert hand_out(service, HUNT) == (500, {"error": "no_game_server"})
        eventually(lambda: not servers(service))
        assert list(proofs.iterdir()) == []
        eventually(lambda: "code 3" in service.log)
    with deploy(tmp_path, **environ) as service:
        status, body = hand_out(service, HUNT)
        assert status == 200
        assert b"hello" in answered(body["port"])  # immediately, because the game server was ready
        assert list(proofs.iterdir()) == []


@proves("limit: Deploy server: JSON body 100 kB, launches spaced, capacity hint 10 s")
def test_bodies_above_100_kb_are_413_and_start_nothing(tmp_path: Path) -> None:
    with deploy(tmp_path, HUNT_WORKER="1") as service:
        assert service.ask("POST", PATH, HUNT | {"x": "y" * 102_400})[0] == 413
        assert servers(service) == []
        assert service.ask("POST", PATH, HUNT | {"x": "y" * 100_000})[0] == 200


@proves("deploy: 500 no_game_server")
def test_a_program_that_cannot_run_leaves_the_server_up(tmp_path: Path) -> None:
    with deploy(tmp_path, GAMESERVER_BINARY_PATH="/no/such/program") as service:
        for body in (CITY, HUNT, CITY):
            assert hand_out(service, body) == (500, {"error": "no_game_server"})
        eventually(lambda: "/no/such/program" in service.log)
        assert servers(service) == []


@proves(
    "candidate MATCHING -> IN_PROGRESS: host and port",
    "started by a matchmaking call; answers as soon as it is spawned",
)
def test_a_player_joins_and_reaches_the_city_through_the_metagame(tmp_path: Path) -> None:
    proofs = tmp_path / "proofs"
    proofs.mkdir(mode=0o700)
    port = free_port()
    address = {"SVC_METAGAME_URL": f"http://127.0.0.1:{port}"}
    with deploy(tmp_path, GAMESERVER_READY_DIR=str(proofs), **address) as service:
        environ = metagame_environ(
            tmp_path,
            port,
            MATCHMAKING_MODE="DEPLOYSERVER",
            DEPLOYSERVER_URL=f"127.0.0.1:{service.port}",
        )
        players = Service("svc-metagame", tmp_path, environ, port)
        players.start()
        try:
            player = register(players, "joiner")
            body = {"gameMode": "CITY", "gameArgs": "", "playerHuntId": ""}
            status, reply = players.ask("POST", "/candidate/join", body, bearer(player))
            assert (status, orjson.loads(reply)["status"]) == (200, "MATCHING")
            result = eventually(lambda: _in_progress(players, player))
            assert b"hello" in answered(result["serverInfo"]["port"])
        finally:
            players.stop()


def _in_progress(players: Service, player: dict[str, str]) -> Any:
    replies = orjson.loads(players.ask("GET", "/candidate/status", None, bearer(player))[1])
    return replies if replies["status"] == "IN_PROGRESS" else None


def test_a_game_server_reaches_the_metagame_with_its_key(tmp_path: Path) -> None:
    environ = {"DATABASE_URL": f"sqlite:///{tmp_path}/svc.db"}
    engine = make_engine(database_url(environ["DATABASE_URL"]))
    migrations.upgrade(engine)
    with engine.begin() as tx:
        add_game_server_key(tx, GAME_SERVER_KEY)
    engine.dispose()
    with (
        metagame(tmp_path, **environ) as service,
        deploy(tmp_path, SVC_METAGAME_URL=f"http://127.0.0.1:{service.port}") as games,
    ):
        port = hand_out(games, CITY)[1]["port"]
        reply = tmp_path / "gameserver-logs" / f"city-{port}.log"
        eventually(lambda: reply.exists() and "metagame answered 200" in reply.read_text())
        assert GAME_SERVER_KEY not in reply.read_text()


def test_the_simulator_explains_its_command_line() -> None:
    done = subprocess.run([SIMULATOR, "key"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: svc-gameserver-sim KEY PORT MAP")
    done = subprocess.run([SIMULATOR, "--help"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert "svc-gameserver-sim KEY PORT MAP" in done.stdout
