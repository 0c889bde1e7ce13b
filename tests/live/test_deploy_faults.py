"""A deploy server without ports, memory or credentials: documented replies and no leaks.

Real processes are needed because the tests check what remains of child processes that fail to
start.
"""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.live.deploying import program
from tests.live.test_deploy import (
    CITY,
    GAME_SERVER_KEY,
    HUNT,
    PATH,
    SIMULATOR,
    answered,
    children,
    deploy,
    hand_out,
    is_bound,
    is_dead,
    servers,
)
from tests.support.processes import PATIENCE_S, Service, eventually, free_port
from tests.support.proves import proves

pytestmark = pytest.mark.live
SERVES = f'exec {SIMULATOR} "$@"'


def test_ports_taken_by_strangers_are_skipped(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        last = int(service.environ["PORT_RANGE_END"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("0.0.0.0", last - 2))
            _, body = hand_out(service, HUNT)
        assert body["port"] == last - 3


def test_memory_that_is_short_is_a_503_and_a_bad_figure_a_500(tmp_path: Path) -> None:
    short = {"GAMESERVER_MEMORY_GUARD": "1", "GAMESERVER_MIN_FREE_MB": "99999999"}
    with deploy(tmp_path, **short) as service:
        status, body = hand_out(service, CITY)
        assert (status, body) == (503, {"error": "capacity_unavailable", "reason": "memory"})
    bad = {"GAMESERVER_MEMORY_GUARD": "1", "GAMESERVER_STARTUP_MB": "much"}
    with deploy(tmp_path, **bad) as service:
        assert hand_out(service, CITY)[0] == 500


def test_readiness_is_waited_for_when_asked(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    with deploy(tmp_path, GAMESERVER_READY_DIR=str(ready)) as service:
        status, body = hand_out(service, CITY)
        assert status == 200
        assert answered(body["port"])
        assert list(ready.iterdir()) == []


# slow: as long as a game server may take to stop
def test_a_game_server_that_ignores_the_stop_is_killed(
    tmp_path: Path,
) -> None:
    with deploy(tmp_path, GAMESERVER_ARGS="-sim-idle=3600 -sim-deaf") as service:
        hand_out(service, HUNT)
        pids = children(service)
        assert len(pids) == 2
        service.stop()
        for pid in pids:
            eventually(lambda pid=pid: is_dead(pid))


def test_a_giant_body_is_refused_and_a_proxied_body_is_not_read(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        status, _ = service.ask("POST", PATH, {"GameMode": "x" * 200_000})
        assert status == 413
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S) as wire:
            head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nVia: 1.1 x\r\n"
            wire.sendall(f"{head}Content-Length: 90000\r\n\r\n".encode())
            assert wire.recv(100).startswith(b"HTTP/1.1 403 ")


def test_the_key_is_in_no_log(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        hand_out(service, HUNT)
        eventually(lambda: servers(service))
    assert GAME_SERVER_KEY not in service.log
    for output in Path(tmp_path, "gameserver-logs").glob("*"):
        assert GAME_SERVER_KEY not in output.read_text()


def _until_empty(service: Service) -> None:
    eventually(lambda: not servers(service))


def test_the_last_words_of_a_crash_are_in_its_log(tmp_path: Path) -> None:
    wordy = (
        "i=0; while [ $i -lt 400 ]; do echo 'a line of a long traceback, like others'; i=$((i+1))"
    )
    crashing = program(tmp_path, "crashes", f"{wordy}; done", "echo last words", "exit 3")
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=crashing, HUNT_WORKER="1") as service:
        for count in range(1, 6):
            port = hand_out(service, HUNT)[1]["port"]
            eventually(lambda count=count: service.log.count("ended: code 3") == count)
            output = Path(tmp_path, "gameserver-logs", f"hunt-{port}.log")
            assert output.read_text().endswith("\nlast words\n")


@proves("no orphan, no leak")
def test_processes_forked_by_a_game_server_end_with_it(tmp_path: Path) -> None:
    flag = tmp_path / "enough"
    waiting = f"while [ ! -e {flag} ]; do sleep 0.1; done"
    note = tmp_path / "forked"
    forks = f"setsid sleep 3600 & echo $! > {note}"
    game = f'{SIMULATOR} "$@" & game=$!; {waiting}; kill -9 $game; wait $game; exit 3'
    forking = program(tmp_path, "forks", forks, game)
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=forking, HUNT_WORKER="1") as service:
        port = hand_out(service, HUNT)[1]["port"]
        eventually(lambda: answered(port))
        forked = int(note.read_text())
        assert not is_dead(forked)
        flag.touch()
        eventually(lambda: not servers(service))
        eventually(lambda: not is_bound(port) and is_dead(forked))


@proves("no orphan, no leak")
def test_a_forked_server_is_adopted_when_its_launcher_was_killed(tmp_path: Path) -> None:
    forking = program(tmp_path, "forks", f'{SIMULATOR} "$@" &', "wait")
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=forking) as service:
        port = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(port))
        [launcher] = children(service)
        service.stop(signal.SIGKILL)
        os.kill(launcher, signal.SIGKILL)
        assert is_bound(port)  # the launcher's child process keeps running
        service.start()
        assert hand_out(service, CITY)[0] == 200  # on the same port
        assert b"hello" in answered(port)
        eventually(lambda: "adopted city" in service.log)  # written within 0.2 s
    assert not is_bound(port)


@proves("no orphan, no leak")
def test_a_restart_kills_processes_left_by_dead_game_servers(tmp_path: Path) -> None:
    note = tmp_path / "forked"
    forking = program(tmp_path, "forks", f"setsid sleep 3600 & echo $! > {note}", SERVES)
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=forking) as service:
        port = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(port))
        [city], forked = children(service), int(note.read_text())
        service.stop(signal.SIGKILL)
        os.kill(city, signal.SIGKILL)
        assert not is_dead(forked)
        service.start()
        servers(service)  # the deploy server answers after it has killed leftover processes
        assert is_dead(forked)
        assert "an earlier run left process " in service.log


@proves("deploy: 500 no_game_server")
def test_a_program_that_cannot_run_or_ends_or_hangs_costs_no_port(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for binary in (str(plain), str(tmp_path), program(tmp_path, "odd", "\0\1")):
        with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary, HUNT_WORKER="1") as service:
            for _ in range(8):  # more than there are ports
                status, body = hand_out(service, HUNT)
                assert status == 500 or binary.endswith("odd"), body
                _until_empty(service)
    ends = {"GAMESERVER_ARGS": "-sim-exit=0", "GAMESERVER_STARTUP_GRACE_MS": "20000"}
    with deploy(tmp_path, HUNT_WORKER="1", **ends) as service:
        for _ in range(7):
            assert hand_out(service, HUNT) == (500, {"error": "no_game_server"})
            eventually(lambda: not servers(service))
    with deploy(tmp_path, HUNT_WORKER="1", GAMESERVER_ARGS="-sim-hang") as service:
        # the reply arrives as soon as the process is spawned
        assert hand_out(service, HUNT)[0] == 200
        [pid] = children(service)
    assert is_dead(pid)


@proves("deploy: 400 bad_request: the input is checked here again")
def test_seventeen_players_and_odd_ids_start_nothing(tmp_path: Path) -> None:
    with deploy(tmp_path, HUNT_WORKER="1") as service:
        for players in (["UID-a"] * 17, ["a:b"], ["a,b"], ["a b"], [""], ["x" * 65], [1], "UID-a"):
            status, body = hand_out(service, HUNT | {"ExpectedPlayers": players})
            assert (status, body["error"]) == (400, "bad_request")
        for hunt in ("../../x", "a b", "a\0b", "x" * 500, 7, "CR19;reboot"):
            status, body = hand_out(service, HUNT | {"HuntId": hunt})
            assert (status, body["error"]) == (400, "bad_request")
        assert hand_out(service, HUNT | {"HuntId": "CR19_PlayerHunt_Unknown"})[0] == 500
        assert servers(service) == [] and children(service) == []


BAD_STARTS: tuple[tuple[dict[str, str], str], ...] = (
    ({"PORT": "x"}, "PORT"),
    ({"PORT": "70000"}, "PORT"),
    ({"BIND_HOST": "nowhere"}, "BIND_HOST"),
    ({"BIND_HOST": "203.0.113.7"}, "Could not listen on 203.0.113.7"),
    ({"METRICS_PORT": "-1"}, "METRICS_PORT"),
)


@pytest.mark.parametrize(("environ", "words"), BAD_STARTS)
def test_a_failed_start_is_one_line_and_a_status(
    tmp_path: Path, environ: dict[str, str], words: str
) -> None:
    whole = {"PORT": str(free_port()), "MY_IP": "127.0.0.1", **environ}
    service = Service("svc-deploy", tmp_path, whole, 0)
    assert service.launch().wait(timeout=PATIENCE_S) == 1
    [line] = [entry for entry in service.log.splitlines() if "svc-deploy: " in entry]
    assert words in line
    assert "Traceback" not in service.log


@proves("boot: a failure is one fatal line, and status 1 when it ends")
def test_a_city_that_does_not_boot_is_one_fatal_line(
    tmp_path: Path,
) -> None:
    for environ in (
        {"CITY_MAP": ""},
        {"PORT_RANGE_BEGIN": "9000", "PORT_RANGE_END": "8000"},
        {"PORT_RANGE_BEGIN": "x"},
        {"GAMESERVER_BINARY_PATH": "/no/such/program"},
    ):
        with deploy(tmp_path, **environ) as service:
            assert hand_out(service, CITY) == (500, {"error": "no_game_server"})
            assert service.stop() == 1
            fatal = [line for line in service.log.splitlines() if "the city did not start" in line]
            assert len(fatal) == 1
        os.unlink(tmp_path / "svc-deploy.log")
