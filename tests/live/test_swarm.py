"""Game servers as services of a real Docker Swarm with one machine."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svcserver.agent.service import LOST_S
from svcserver.deploy.swarm import HOST
from svcserver.kernel.secrets import fingerprint
from tests.live.deploying import CITY, HUNT, as_owner, deploy, hand_out, servers
from tests.live.fleet_host import FleetHost, agent, fleet_host
from tests.live.swarm_engine import IMAGE, SwarmMachine, swarm_machine, talk
from tests.support.processes import Service, eventually, register

pytestmark = pytest.mark.live


@pytest.fixture
def machine() -> Iterator[SwarmMachine]:
    with swarm_machine() as machine:
        yield machine


def settings(machine: SwarmMachine) -> dict[str, str]:
    """Return settings with which one hunt fits into the machine's memory."""
    total_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "GAMESERVER_ENGINE": "swarm",
        "GAMESERVER_IMAGE": IMAGE,
        "GAMESERVER_BINARY_PATH": "/game",
        "GAMESERVER_LAUNCH_KEYS": "1",
        "GAMESERVER_STARTUP_MB": "64",
        "GAMESERVER_HUNT_STARTUP_MB": str(int(total_kb / 1024 * 0.6)),
        "GAMESERVER_CPUS": "0.5",
        "DOCKER_HOST": f"unix://{machine.socket}",
    }


def match() -> dict[str, str]:
    return {"X-Svc-Match": str(uuid.uuid4())}


def kinds(service: Service) -> list[str]:
    return sorted(record["kind"] for record in servers(service))


def launched(service: Service, body: dict[str, Any], headers: dict[str, str]) -> Any:
    """Return the address of a game server; repeat the request if it is refused at first."""

    def launch() -> Any:
        status, reply = hand_out(service, body, **headers)
        return reply if status == 200 else None

    return eventually(launch, pause_s=0.5)


# slow: 100 s: this file starts an engine for each test
def test_a_hunt_runs_survives_restarts_and_ends(tmp_path: Path, machine: SwarmMachine) -> None:
    with deploy(tmp_path, **settings(machine)) as service:
        first = match()
        hunt = launched(service, HUNT, first)
        city = launched(service, CITY, {})
        assert hand_out(service, HUNT, **first) == (200, hunt)
        assert len(machine.names("service")) == 2
        spec = machine.docker("service", "inspect", *machine.names("service")).stdout

        began = time.monotonic()
        status, reply = hand_out(service, HUNT, **match())
        assert (status, reply) == (503, {"error": "capacity_unavailable", "reason": "memory"})
        assert 5 <= time.monotonic() - began < 15
        assert len(machine.names("service")) == len(machine.names("secret")) == 2

        assert service.process is not None
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait()
        service.start()
        eventually(lambda: kinds(service) == ["city", "hunt"])
        assert hand_out(service, HUNT, **first) == (200, hunt)
        assert launched(service, CITY, {}) == city

        key, *arguments = talk(hunt["port"]).split()
        assert arguments[5] == f"127.0.0.1:{hunt['port']}"
        assert key not in spec
        eventually(lambda: kinds(service) == ["city"])
        known = as_owner(service, "GET", f"/gameservers/key?sha256={fingerprint(key)}")
        assert known == (200, {"known": False})
        eventually(lambda: machine.names("service") == machine.names("secret") == ["svc-city"])
        eventually(
            lambda: [task["DesiredState"] for task in machine.entries("tasks")] == ["running"]
        )
        launched(service, HUNT, match())
        service.stop()
        assert machine.names("service") == machine.names("secret") == []


def test_hunts_end_and_the_city_returns_after_an_engine_restart(
    tmp_path: Path, machine: SwarmMachine
) -> None:
    with deploy(tmp_path, **settings(machine)) as service:
        hunt = launched(service, HUNT, match())
        city = launched(service, CITY, {})
        machine.stop()
        assert kinds(service) == ["city", "hunt"]
        machine.start()
        eventually(lambda: kinds(service) == ["city"])
        assert talk(hunt["port"]) == ""
        assert eventually(lambda: talk(city["port"]))
        assert machine.names("service") == ["svc-city"]
        launched(service, HUNT, match())


def run(machine: SwarmMachine, *words: str) -> None:
    """Run a container for ten minutes."""
    command = ("--network", "none", "--entrypoint", "/bin/sleep", *words, IMAGE, "600")
    machine.docker("run", "--detach", *command)


def names(machine: SwarmMachine) -> list[str]:
    """Return the names of the running containers."""
    return machine.docker("ps", "--format", "{{.Names}}").stdout.split()


def freeze(host: FleetHost, number: int) -> None:
    """Send this signal to the metagame's process; SIGSTOP makes its machine seem cut off."""
    assert host.metagame.process is not None
    os.kill(host.metagame.process.pid, number)


def test_game_servers_of_a_cut_off_node_stop(tmp_path: Path, machine: SwarmMachine) -> None:
    socket = f"unix://{machine.socket}"
    with fleet_host(tmp_path) as host, agent(host, tmp_path, DOCKER_HOST=socket) as ours:
        eventually(lambda: host.deploy.looks)
        before = host.deploy.looks
        run(machine, "--label", f"{HOST}=127.0.0.1:61001")
        eventually(lambda: host.deploy.looks > before)
        run(machine)  # a container that is not the deploy server's
        assert len(names(machine)) == 2
        freeze(host, signal.SIGSTOP)
        began = time.monotonic()
        try:
            eventually(lambda: len(names(machine)) == 1, pause_s=0.5)
            assert time.monotonic() - began > LOST_S - 15
        finally:
            freeze(host, signal.SIGCONT)
        eventually(lambda: "is connected to the host and the swarm again" in ours.log)
        looks = host.deploy.looks
        run(machine, "--label", f"{HOST}=127.0.0.1:61001")
        eventually(lambda: host.deploy.looks > looks)
        assert len(names(machine)) == 2


def test_a_hunt_in_the_swarm_writes_through_its_agent(
    tmp_path: Path, machine: SwarmMachine
) -> None:
    node = machine.docker("info", "--format", "{{.Swarm.NodeID}}").stdout.strip()
    metagame = tmp_path / "metagame"
    metagame.mkdir()
    with (
        deploy(tmp_path, **settings(machine)) as engine,
        fleet_host(metagame, DEPLOYSERVER_URL=f"127.0.0.1:{engine.port}") as host,
        agent(host, tmp_path, node, DOCKER_HOST=f"unix://{machine.socket}") as ours,
    ):
        eve, ann = register(host.metagame, "Eve_1"), host.player_in_hunt("Ann_1")
        eventually(lambda: host.status(ann)["status"] == "IN_PROGRESS", pause_s=0.5)
        [port] = [entry["port"] for entry in servers(engine) if entry["kind"] != "city"]
        [name] = [name for name in names(machine) if "city" not in name]
        key = machine.docker("exec", name, "/bin/cat", "/tmp/arguments").stdout.split()[0]

        def grant(player: dict[str, str]) -> int:
            headers = {"x-svc-gameserver-apikey": key}
            return ours.ask("POST", f"/progression/{player['id']}", {}, headers)[0]

        assert (grant(ann), grant(eve)) == (200, 403)
        assert talk(port)  # the game server ends after this
        eventually(lambda: grant(ann) == 401)
