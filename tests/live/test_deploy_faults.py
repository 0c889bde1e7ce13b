"""The deploy server short of ports, memory or proof: the documented answer, and nothing leaks."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.live.test_deploy import (
    CITY,
    GAME_SERVER_KEY,
    HUNT,
    PATH,
    answered,
    children,
    deploy,
    hand_out,
    is_dead,
    servers,
)
from tests.support.processes import eventually

pytestmark = pytest.mark.live


def test_ports_taken_by_strangers_are_skipped(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        last = int(service.environ["PORT_RANGE_END"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("0.0.0.0", last - 2))
            _, said = hand_out(service, HUNT)
        assert said["port"] == last - 3


def test_memory_that_is_short_is_a_503_and_a_bad_figure_a_500(tmp_path: Path) -> None:
    short = {"GAMESERVER_MEMORY_GUARD": "1", "GAMESERVER_MIN_FREE_MB": "99999999"}
    with deploy(tmp_path, **short) as service:
        status, said = hand_out(service, CITY)
        assert (status, said) == (503, {"error": "capacity_unavailable", "reason": "memory"})
    bad = {"GAMESERVER_MEMORY_GUARD": "1", "GAMESERVER_STARTUP_MB": "much"}
    with deploy(tmp_path, **bad) as service:
        assert hand_out(service, CITY)[0] == 500


def test_readiness_is_waited_for_when_asked(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    with deploy(tmp_path, GAMESERVER_READY_DIR=str(ready)) as service:
        status, said = hand_out(service, CITY)
        assert status == 200
        assert answered(said["port"])
        assert list(ready.iterdir()) == []


def test_a_game_server_that_ignores_the_stop_is_killed_with_the_deploy_server(
    tmp_path: Path,
) -> None:
    with deploy(tmp_path, GAMESERVER_ARGS="-sim-idle=3600 -sim-deaf") as service:
        hand_out(service, HUNT)
        pids = children(service)
        assert len(pids) == 2
        service.stop(signal.SIGKILL)
        for pid in pids:
            eventually(lambda pid=pid: is_dead(pid))


def test_a_giant_body_is_refused_and_a_proxied_one_not_even_read(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        status, _ = service.ask("POST", PATH, {"GameMode": "x" * 200_000})
        assert status == 413
        with socket.create_connection(("127.0.0.1", service.port), timeout=10) as wire:
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
