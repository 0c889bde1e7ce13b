"""Game servers on three machines of a real Docker Swarm, each with its own network."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.live.deploying import CITY, HUNT, deploy, hand_out, servers
from tests.live.swarm_engine import IMAGE, SwarmMachine, fleet, join
from tests.support.processes import Service, eventually

pytestmark = pytest.mark.live

LOST_S = 30.0  # the hunts of a lost machine have ended by then


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

    address: str = eventually(ask, 60, 0.5)
    return address


def hunts(service: Service) -> int:
    return sum(record["kind"] == "hunt" for record in servers(service))


def lost_within(service: Service, remaining: int) -> None:
    """Wait until the hunts of a lost machine have ended."""
    began = time.monotonic()
    eventually(lambda: hunts(service) == remaining, 2 * LOST_S, 0.2)
    seconds = time.monotonic() - began
    assert seconds < LOST_S, f"a lost machine's hunts ended after {seconds:.0f} s"


def test_hunts_of_a_machine_that_joins_dies_or_is_cut_off(tmp_path: Path) -> None:
    with fleet() as machines:
        manager, second, third = machines
        manager.docker("node", "update", "--availability", "pause", manager.node)
        with deploy(tmp_path, **settings(manager)) as service:
            by_address = {machine.address: machine for machine in machines}
            assert city(service) == second.address
            manager.docker("node", "update", "--availability", "active", manager.node)
            first, waiting, later = (str(uuid.uuid4()) for _ in range(3))
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
            assert launch(service, waiting) == manager.address
            third.connect("up")
            eventually(lambda: third.hunts() == [], 60, 0.5)
            assert by_address[launch(service, waiting)].hunts() == [waiting]
