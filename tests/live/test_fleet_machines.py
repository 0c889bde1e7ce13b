"""A hunt on a second machine, which has its own network, engine and agent."""

import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.agent.service import LOST_S
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.fleet_network import METAGAME, networked_host
from tests.live.swarm_engine import SwarmMachine, fleet
from tests.support.processes import Service, bearer, eventually, register

pytestmark = pytest.mark.live


def join(metagame: Service, player: dict[str, str]) -> str:
    """Send a player to a new game server; return the address of its machine."""
    status, body = metagame.ask("POST", "/candidate/join", TUTORIAL, bearer(player))
    assert status == 200, body

    def address() -> Any:
        reply = orjson.loads(metagame.ask("GET", "/candidate/status", None, bearer(player))[1])
        return reply["status"] == "IN_PROGRESS" and reply["serverInfo"]["host"]

    return str(eventually(address, pause_s=0.5))


def containers(machine: SwarmMachine) -> list[str]:
    return machine.docker("ps", "--format", "{{.Names}}").stdout.split()


def grant(machine: SwarmMachine, container: str, account: str) -> str:
    """Return what the metagame answers to a machine's game server, which acts for a player."""
    key = machine.docker("exec", container, "/bin/cat", "/tmp/arguments").stdout.split()[0]
    words = ["/bin/busybox", "wget", "-q", "-O", "-", "--post-data", "{}"]
    words += ["--header", f"x-svc-gameserver-apikey: {key}"]
    url = f"http://127.0.0.1:{METAGAME}/progression/{account}"
    reply = machine.docker("exec", container, *words, url, check=False)
    return reply.stdout + reply.stderr


# slow: 50 s: the engines of two machines start
def test_a_hunt_on_another_machine_writes_and_ends_when_cut_off(tmp_path: Path) -> None:
    with fleet(2, joined=2) as (first, second):
        first.docker("node", "update", "--availability", "pause", first.node)
        with networked_host(tmp_path, first, second, HUNT_WORKER="1") as host:
            metagame, agent = host.metagame, host.agent(second)
            ann, eve = register(metagame, "Ann_1"), register(metagame, "Eve_1")
            assert join(metagame, ann) == second.address
            [hunt] = containers(second)
            assert '"code":"OK"' in grant(second, hunt, ann["id"])
            assert "403" in grant(second, hunt, eve["id"])

            first.docker("node", "update", "--availability", "active", first.node)
            second.connect("down")
            began = time.monotonic()
            eventually(lambda: containers(second) == [], pause_s=0.5)
            assert time.monotonic() - began > LOST_S - 15
            assert join(metagame, ann) == first.address

            second.connect("up")
            eventually(lambda: "answers again" in agent.log)
