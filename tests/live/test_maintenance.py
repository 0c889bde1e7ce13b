"""Maintenance mode on a whole host: waiting players, an ending hunt and a stack restart.

Real processes are needed because the stack replaces itself, and game servers are grandchild
processes of the stack.
"""

import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.stack import rolling
from tests.ctl.command import svcctl
from tests.ctl.hosts import change, demo_host, read_output, stack, value
from tests.live.dashboard_page import host
from tests.support.processes import SELDOM_S, Service, bearer, eventually, register
from tests.support.proves import proves

pytestmark = pytest.mark.live

HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "Hunt_B"}
READY = {**HUNT, "playerHuntId": "CR19_PlayerHunt_Escalation_Randall_Easy"}


class MetagameClient:
    """The metagame of a running stack, and requests that players send to it."""

    def __init__(self, folder: Path) -> None:
        port = int(value(folder, "metagame", "PORT"))
        self.metagame = Service("svc-metagame", folder, {}, port)

    def player(self, name: str) -> dict[str, str]:
        return register(self.metagame, name)

    def join(self, player: dict[str, str], request: dict[str, str]) -> int:
        return self.metagame.ask("POST", "/candidate/join", request, bearer(player))[0]

    def status(self, player: dict[str, str]) -> Any:
        return orjson.loads(self.metagame.ask("GET", "/candidate/status", None, bearer(player))[1])


def guard(folder: Path) -> None:
    """Give the owner a dashboard key and a second factor."""
    for what in ("dashboard-key", "second-factor"):
        assert svcctl("account", what, "owner", "--config", folder, "--json").status == 0


def cities(folder: Path) -> list[int]:
    """Return the pid of every started city server that the log names; the log lags a little."""
    return [int(pid) for pid in re.findall(r"started city \S+ pid (\d+)", read_output(folder))]


def leave(port: int) -> None:
    """Join a simulated hunt as its only player and leave, which ends the hunt."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.settimeout(0.25)
        for word in (b"svc hello Ann", b"svc goodbye Ann"):

            def answered(word: bytes = word) -> bool:
                wire.sendto(word, ("127.0.0.1", port))
                try:
                    return bool(wire.recv(2048))
                except (TimeoutError, ConnectionRefusedError):  # the service is still starting
                    return False

            eventually(answered)


# slow: 40 s: a stack of five processes, started twice
@proves("svcctl drain, update when-empty", "svc-stack: restarts with the installed code")
def test_an_update_waits_for_the_last_hunt_and_refuses_new_hunts(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with stack(folder) as process:
        eventually(lambda: "stack ready: " in read_output(folder))
        guard(folder)
        before, client = rolling.read_state(folder), MetagameClient(folder)
        assert before is not None
        ann, bob, cleo, *others = (client.player(f"player_{number}") for number in range(6))
        for entry in (ann, *others):
            assert client.join(entry, READY) == 200
        hunting = eventually(lambda: client.status(ann).get("serverInfo"))
        assert client.join(bob, HUNT) == 200  # Bob waits for other players
        ran = svcctl("update", "when-empty", "--config", folder, "--json")
        assert ran.status == 0, ran.err
        assert (ran.data["drain"]["then"], ran.data["hunts"]) == ("restart", 1)
        assert client.status(bob)["status"] == "FAILED"
        assert client.join(cleo, HUNT) == 400
        assert "serverInfo" in client.status(ann)
        assert rolling.read_state(folder) == before
        leave(hunting["port"])
        eventually(lambda: read_output(folder).count("stack ready: ") == 2)
        after = rolling.read_state(folder)
        assert after is not None and after.begun > before.begun
        assert after.pid == process.pid  # systemd or a container still sees the same process
        assert client.join(cleo, HUNT) == 200
        ran = svcctl("drain", "on", "--then", "stop", "--config", folder, "--json")
        assert ran.status == 0, ran.err
        assert process.wait(60) == 0


# slow: a game server is frozen for ten seconds before it is replaced
@proves(
    "deploy: a game server that reads nothing any more is ended, a city or dojo started again",
    "svcctl gameserver list, start, stop, restart, console",
    "svcctl: as the owner, whatever opens the dashboard to people",
)
def test_a_frozen_city_is_replaced_and_the_owner_handles_one(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    change(folder, "deploy", "GAMESERVER_FROZEN_SECONDS", "10")

    def ctl(*words: str) -> Any:
        ran = svcctl("gameserver", *words, "--config", folder, "--json")
        assert ran.status == 0, ran.err
        return ran.data

    with stack(folder):
        eventually(lambda: "stack ready: " in read_output(folder))
        guard(folder)
        view = svcctl("status", "--config", folder, "--json").data
        assert view["health"] is not None and not view["status"]["limited"]
        [city] = ctl("list")["servers"]
        eventually(
            lambda: any("listening on" in entry for entry in ctl("console", "city")["lines"])
        )
        pid = eventually(lambda: cities(folder))[-1]
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: "has read nothing for 10 s" in read_output(folder))
        fresh = eventually(
            lambda: [entry for entry in ctl("list")["servers"] if entry["id"] != city["id"]]
        )
        assert (fresh[0]["kind"], fresh[0]["port"]) == ("city", city["port"])
        again = ctl("restart", "city")["id"]
        assert again not in (city["id"], fresh[0]["id"])

        def printed() -> bool:
            return any("listening on" in line for line in ctl("console", again[:8])["lines"])

        eventually(printed)
        ctl("stop", again[:8])
        assert ctl("list")["servers"] == []
        assert printed()
        assert ctl("start", "city")["id"]
        assert (
            "no running game server matches"
            in svcctl("gameserver", "stop", "hunt", "--config", folder).line
        )


# slow: 40 s: two graces of ten seconds, since a grace is whole seconds of real silence
@proves("deploy: a game server whose players are heard is not frozen")
def test_a_frozen_city_lives_while_its_players_send_heartbeats(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    change(folder, "deploy", "GAMESERVER_FROZEN_SECONDS", "10")
    city_map = value(folder, "deploy", "CITY_MAP")
    with stack(folder):
        eventually(lambda: "stack ready: " in read_output(folder))
        client = MetagameClient(folder)
        ann = client.player("Ann_1")

        def beats(until: str) -> bool:
            beat = {"map": city_map, "state": "city"}
            status, _ = client.metagame.ask("POST", "/heartbeat", beat, bearer(ann))
            assert status == 200
            return until in read_output(folder)

        printed = folder / "gameserver-logs"
        eventually(
            lambda: [
                entry for entry in printed.glob("city-*") if "listening on" in entry.read_text()
            ]
        )
        pid = eventually(lambda: cities(folder))[-1]
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: beats("but its players still send heartbeats"))
        assert not beats("and is killed")  # so the game server has another ten seconds from now on
        os.kill(pid, 0)
        eventually(lambda: "has read nothing for 10 s and is killed" in read_output(folder))
        deliveries = read_output(folder)
        assert deliveries.index("but its players still send heartbeats") < deliveries.index(
            "and is killed"
        )
        eventually(lambda: len(cities(folder)) == 2)


# a process is needed because the test kills the metagame
@proves("maintenance mode outlives a crash")
def test_maintenance_mode_survives_a_kill_and_stays_off_later(tmp_path: Path) -> None:
    with host(tmp_path / "host") as here:
        service, ann = here.service, here.players[0]
        request = {"On": True, "Reason": "new disk"}
        before = here.admin("POST", "DashboardDrain", request)["drain"]
        service.stop(signal.SIGKILL)
        service.start()
        eventually(lambda: here.admin("GET", "DashboardDrain")["drain"] == before, pause_s=SELDOM_S)
        assert service.ask("POST", "/candidate/join", HUNT, bearer(ann))[0] == 400
        here.admin("POST", "DashboardDrain", {"On": False})
        service.stop(signal.SIGKILL)
        service.start()
        assert here.admin("GET", "DashboardDrain")["drain"] is None
        assert service.ask("POST", "/candidate/join", HUNT, bearer(ann))[0] == 200
