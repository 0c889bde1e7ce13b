"""Game servers on three machines of a real Docker Swarm, each with its own network."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.edge.nodes import FleetFolder
from svcserver.kernel.envfile import change
from svcserver.kernel.settings import parse_env_file
from tests.ctl.command import new_host, svcctl
from tests.live.deploying import CITY, HUNT, deploy, hand_out, servers
from tests.live.swarm_engine import IMAGE, SwarmMachine, fleet, join
from tests.support.processes import Service, eventually, free_port

pytestmark = pytest.mark.live

LOST_S = 30.0  # the hunts of a lost machine have ended by then
MOVED_S = 120.0  # Docker waits for up to a minute until a city has ended before it starts elsewhere


def settings(manager: SwarmMachine) -> dict[str, str]:
    """Return settings with which one hunt fits into each machine's memory."""
    total_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "GAMESERVER_ENGINE": "swarm",
        "GAMESERVER_IMAGE": IMAGE,
        "GAMESERVER_BINARY_PATH": "/game",
        "GAMESERVER_STARTUP_MB": "64",
        "GAMESERVER_HUNT_STARTUP_MB": str(int(total_kb / 1024 * 0.6)),
        "GAMESERVER_CPUS": "0.1",
        "MY_IP": "",
        "DOCKER_HOST": f"unix://{manager.socket}",
    }


def hunt(service: Service, match: str) -> dict[str, Any] | None:
    """Launch a hunt for a match; return its address, or None if no machine has room."""
    status, reply = hand_out(service, HUNT, **{"X-Svc-Match": match})
    assert status in (200, 503), reply
    return reply if status == 200 else None


def launch(service: Service, match: str) -> str:
    """Launch a hunt, repeatedly if necessary, and return the address of its machine."""
    address: str = eventually(lambda: hunt(service, match), 60, 0.5)["host"]
    return address


def city(service: Service) -> str:
    def ask() -> Any:
        status, reply = hand_out(service, CITY)
        return reply["host"] if status == 200 else None

    address: str = eventually(ask, MOVED_S, 0.5)
    return address


def hunts(service: Service) -> int:
    return sum(record["kind"] == "hunt" for record in servers(service))


def lost_within(service: Service, remaining: int) -> None:
    """Wait until the hunts of a lost machine have ended, and assert that this was in time."""
    began = time.monotonic()
    eventually(lambda: hunts(service) == remaining, 2 * LOST_S, 0.2)
    seconds = time.monotonic() - began
    assert seconds < LOST_S, f"a lost machine's hunts ended after {seconds:.0f} s"


# slow: 100 s: this file starts the engines of three machines, three times
def test_hunts_of_a_machine_that_joins_dies_or_is_cut_off(tmp_path: Path) -> None:
    with fleet(3, joined=2) as machines:
        manager, second, third = machines
        manager.docker("node", "update", "--availability", "pause", manager.node)
        with deploy(tmp_path, **settings(manager)) as service:
            by_address = {machine.address: machine for machine in machines}
            assert city(service) == second.address
            manager.docker("node", "update", "--availability", "active", manager.node)
            first, waiting, later, following = (str(uuid.uuid4()) for _ in range(4))
            both = {launch(service, first), launch(service, str(uuid.uuid4()))}
            assert both == {manager.address, second.address}
            assert hunt(service, waiting) is None

            # a machine joins while a hunt waits
            replies: list[dict[str, Any] | None] = []
            thread = threading.Thread(target=lambda: replies.append(hunt(service, waiting)))
            thread.start()
            join(third, manager)
            thread.join()
            assert launch(service, waiting) == third.address
            assert third.hunts() == [waiting]

            # the deploy server is killed
            assert service.process is not None
            os.kill(service.process.pid, signal.SIGKILL)
            service.process.wait()
            service.start()
            eventually(lambda: hunts(service) == 3)
            assert launch(service, waiting) == third.address

            # the manager's engine restarts: hunts on other machines go on
            manager.stop()
            manager.start()
            eventually(lambda: hunts(service) == 2, 60, 0.2)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                assert third.hunts() == [waiting]
            assert launch(service, waiting) == third.address

            # a machine dies in mid-hunt: its hunts end, and its city moves
            second.die()
            lost_within(service, 1)
            assert launch(service, later) == manager.address
            assert city(service) in (manager.address, third.address)

            # a machine is cut off, and comes back
            third.connect("down")
            lost_within(service, 1)
            manager.docker("service", "rm", f"svc-{later}")
            assert hand_out(service, HUNT, **{"X-Svc-Match": waiting})[0] == 500
            assert launch(service, following) == manager.address
            third.connect("up")
            eventually(lambda: third.hunts() == [], 60, 0.5)
            assert by_address[launch(service, following)].hunts() == [following]


def test_owner_adds_drains_and_removes_a_machine(tmp_path: Path) -> None:
    host, game = new_host(tmp_path / "host"), tmp_path / "game"
    # its metagame does not run, and the usual port may be another host's
    change(host / "metagame.env", {"PORT": str(free_port())})
    (game / "bin").mkdir(parents=True)
    (game / "bin" / "server").write_text("#!/bin/sh\nsleep 60\n")
    with fleet(2, joined=0) as (manager, second):
        change(host / "deploy.env", {"DOCKER_HOST": f"unix://{manager.socket}"})

        def run(*words: object) -> Any:
            result = svcctl("fleet", *words, "--config", host, "--json")
            assert result.status == 0, result.err
            return result.data

        assert "is not a manager" in svcctl("fleet", "nodes", "--config", host).err
        where = ("--base", IMAGE, "--address", manager.address)
        image = run("init", "--program", game, "--binary", "bin/server", *where)["image"]
        settings = parse_env_file((host / "deploy.env").read_text())
        assert settings["GAMESERVER_IMAGE"] == image
        assert settings["GAMESERVER_BINARY_PATH"] == "/srv/game/bin/server"

        program = (
            f"from svcserver.ctl import fleet, main; fleet.ENGINE={second.socket!r}; main.main()"
        )
        words = [sys.executable, "-c", program, "fleet", "invite", "--agent-image", IMAGE]
        words += ["--config", str(host), "--json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as invite:
            assert invite.stdout is not None
            command = orjson.loads(invite.stdout.readline())["command"].split()
            second.docker(*command[1:])
            assert invite.wait(60) == 0
        listed = {entry["id"]: entry for entry in run("nodes")}
        assert listed[second.node]["has_agent"]
        assert listed[second.node]["engine_address"] == second.address
        [accepted] = FleetFolder(host / "fleet").nodes()
        assert (accepted.id, accepted.address) == (second.node, second.address)
        allowed = parse_env_file((host / "metagame.env").read_text())["GAMESERVER_ALLOW_FROM"]
        assert second.address in allowed.split(",")

        node = second.node
        run("drain", node)
        statuses = {entry["id"]: entry["status"] for entry in run("nodes")}
        assert statuses == {manager.node: "ready", node: "draining"}
        run("remove", node)
        assert [entry["id"] for entry in run("nodes")] == [manager.node]
        assert FleetFolder(host / "fleet").nodes() == []
        assert manager.names("secret") == []


def test_drained_machine_keeps_its_hunt_and_then_moves_its_city(tmp_path: Path) -> None:
    host = new_host(tmp_path / "host")
    with fleet(2, joined=2) as (manager, second):
        change(host / "deploy.env", {"DOCKER_HOST": f"unix://{manager.socket}"})

        def run(*words: object) -> Any:
            result = svcctl("fleet", *words, "--config", host, "--json")
            assert result.status == 0, result.err
            return result.data

        def status() -> str:
            return {entry["id"]: entry["status"] for entry in run("nodes")}[second.node]

        manager.docker("node", "update", "--availability", "pause", manager.node)
        with deploy(tmp_path, **settings(manager)) as service:
            match = str(uuid.uuid4())
            assert city(service) == launch(service, match) == second.address
            manager.docker("node", "update", "--availability", "active", manager.node)

            assert run("drain", second.node)["hunts"] == 1
            assert launch(service, str(uuid.uuid4())) == manager.address
            assert launch(service, match) == city(service) == second.address
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                assert (second.hunts(), status()) == ([match], "draining")

            # the hunt's only client leaves: it ends
            label = f"label=svc.match={match}"
            [name] = second.docker("ps", "--quiet", "--filter", label).stdout.split()
            port = second.docker("exec", name, "/bin/cat", "/tmp/arguments").stdout.split()[1]
            second.docker("exec", name, "/bin/busybox", "nc", "127.0.0.1", port, check=False)
            eventually(lambda: status() == "drained", 60, 0.5)
            assert eventually(lambda: city(service) == manager.address, MOVED_S, 0.5)
            eventually(lambda: second.docker("ps", "--quiet").stdout == "", 60, 0.5)
            assert match not in manager.hunts()

            run("drain", second.node, "--undo")
            assert status() == "ready"
