"""A node's agent beside a real container engine: the end of the node's game servers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from svcserver.agent.service import LOST_S
from svcserver.deploy.swarm import HOST
from tests.live.deploying import deploy, servers
from tests.live.fleet_host import FleetHost, agent, fleet_host
from tests.live.swarm_engine import IMAGE, SwarmMachine, swarm_machine, talk
from tests.live.test_swarm import settings
from tests.support.processes import eventually, register

pytestmark = pytest.mark.live


@pytest.fixture
def machine() -> Iterator[SwarmMachine]:
    with swarm_machine() as machine:
        yield machine


def run(machine: SwarmMachine, *words: str) -> None:
    """Run a container for ten minutes."""
    command = ("--network", "none", "--entrypoint", "/bin/sleep", *words, IMAGE, "600")
    machine.docker("run", "--detach", *command)


def names(machine: SwarmMachine) -> list[str]:
    """Return the names of the running containers."""
    return machine.docker("ps", "--format", "{{.Names}}").stdout.split()


def freeze(host: FleetHost, number: int) -> None:
    """Stop or continue the metagame's process, as if its machine were cut off or back."""
    assert host.metagame.process is not None
    os.kill(host.metagame.process.pid, number)


def test_game_servers_of_a_cut_off_node_stop(tmp_path: Path, machine: SwarmMachine) -> None:
    socket = f"unix://{machine.socket}"
    with fleet_host(tmp_path) as host, agent(host, tmp_path, DOCKER_HOST=socket) as ours:
        eventually(lambda: host.deploy.looks)
        before = host.deploy.looks
        run(machine, "--label", f"{HOST}=127.0.0.1:61001")
        eventually(lambda: host.deploy.looks > before)
        run(machine)  # not ours
        assert len(names(machine)) == 2
        freeze(host, signal.SIGSTOP)
        began = time.monotonic()
        try:
            eventually(lambda: len(names(machine)) == 1, pause_s=0.5)
            assert time.monotonic() - began > LOST_S - 15
        finally:
            freeze(host, signal.SIGCONT)
        eventually(lambda: "answers again" in ours.log)
        run(machine, "--label", f"{HOST}=127.0.0.1:61001")
        looks = host.deploy.looks
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
