"""A deploy server as a process, with simulated game servers."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from svcserver.kernel.machine import SIGNING_KEY, machine_headers
from svcserver.kernel.system import epoch
from tests.ctl.hosts import row_of
from tests.support.game import GAME_SERVER_KEY, signing_keys
from tests.support.processes import Service, end_game_servers, free_port

PATH = "/api/matchmaker/handle-matchmaking-for-player"
SIMULATOR = str(Path(sys.executable).parent / "svc-gameserver-sim")
CITY = {"GameMode": "CITY", "GameArgs": "", "HuntId": ""}
HUNT = {
    "GameMode": "ISLAND",
    "GameArgs": "",
    "HuntId": "CR19_PlayerHunt_Escalation_Randall_Easy",
    "ExpectedPlayers": ["UID-a"],
}


def udp_block(size: int = 8) -> int:
    """Return the last port of ``size`` consecutive free UDP ports."""
    return row_of(size, socket.SOCK_DGRAM) + size - 1


def is_bound(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return True
    return False


@contextmanager
def deploy(folder: Path, **environ: str) -> Iterator[Service]:
    port, last = free_port(), udp_block()
    service = Service(
        "svc-deploy",
        folder,
        {
            "PORT": str(port),
            "MY_IP": "127.0.0.1",
            "PORT_RANGE_BEGIN": str(last - 7),
            "PORT_RANGE_END": str(last),
            "GAMESERVER_BINARY_PATH": SIMULATOR,
            "GAMESERVER_MEMORY_GUARD": "0",
            "CITY_MAP": "/Game/Maps/city/a_01_persistent",
            "METAGAME_API_KEY": GAME_SERVER_KEY,
            SIGNING_KEY: signing_keys()[0],
            "SVC_METAGAME_URL": f"http://127.0.0.1:{free_port()}",
            **environ,
        },
        port,
    )
    service.start()
    try:
        yield service
    finally:
        service.stop()
        end_game_servers(folder)


def hand_out(service: Service, body: dict[str, Any], **headers: str) -> tuple[int, Any]:
    status, reply = service.ask("POST", PATH, body, headers)
    return status, orjson.loads(reply) if reply else None


def servers(service: Service) -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = orjson.loads(service.ask("GET", "/gameservers")[1])["servers"]
    return document


def as_owner(service: Service, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request to one of the owner's routes, as the metagame does."""
    ticket = machine_headers(signing_keys()[0], "svc-metagame", method, path, epoch())
    status, reply = service.ask(method, path, body, ticket)
    return status, orjson.loads(reply) if reply else None


def program(folder: Path, name: str, *lines: str) -> str:
    """Write a game-server program for the test."""
    path = folder / name
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return str(path)
