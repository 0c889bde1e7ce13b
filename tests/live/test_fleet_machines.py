"""A hunt on a second machine, which has its own network, engine and agent."""

from __future__ import annotations

import ctypes
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define

from svcserver.agent.service import LOST_S
from svcserver.edge.nodes import FleetFolder
from svcserver.kernel.machine import SIGNING_KEY
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.swarm_engine import IMAGE, SwarmMachine, fleet
from tests.support.game import signing_keys
from tests.support.processes import Service, bearer, eventually, metagame_environ, register

pytestmark = pytest.mark.live

METAGAME, DEPLOY, FLEET = 61000, 61001, 61020
NEW_NETWORK = 0x4000_0000  # CLONE_NEWNET
CALL_S = 30.0


@define
class ServiceOn(Service):
    """A service in the network of one machine."""

    namespace: str = ""

    def launch(self) -> subprocess.Popen[bytes]:
        clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        words = ["nsenter", f"--net=/run/netns/{self.namespace}"]
        words += [str(Path(sys.executable).with_name("twistd")), "--nodaemon", "--pidfile="]
        with Path(self.folder, f"{self.name}.log").open("ab") as out:
            self._earlier = len(self.log)
            environ = {**clean, **self.environ}
            self.process = subprocess.Popen(
                [*words, self.name], cwd=self.folder, env=environ, stdout=out, stderr=out
            )
        return self.process

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.sock = connect(self.namespace, self.port)
        try:
            data = None if body is None else orjson.dumps(body)
            connection.request(method, path, data, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()


def connect(namespace: str, port: int) -> socket.socket:
    """Connect to a port on the loopback address of another network."""
    opened: list[socket.socket] = []

    def work() -> None:  # in a thread of its own, which alone enters the network
        with open(f"/run/netns/{namespace}", "rb") as file:
            assert ctypes.CDLL(None).setns(file.fileno(), NEW_NETWORK) == 0
        opened.append(socket.create_connection(("127.0.0.1", port), CALL_S))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return opened[0]


@contextmanager
def two_machines(folder: Path, first: SwarmMachine, second: SwarmMachine) -> Iterator[Any]:
    """Yield the first machine's metagame and deploy server, and the second machine's agent."""
    host, rest = folder / "host", folder / "rest"
    for place in (host, rest):
        place.mkdir()
    nodes = FleetFolder(host / "fleet")
    file = rest / "svc-node"
    file.write_bytes(nodes.issue(second.node, second.address, first.address, FLEET))
    metagame = metagame_environ(
        host,
        METAGAME,
        FLEET_PORT=str(FLEET),
        GAMESERVER_ALLOW_FROM=second.address,
        DEPLOYSERVER_URL=f"127.0.0.1:{DEPLOY}",
        MATCHMAKING_MODE="DEPLOYSERVER",
    )
    deploy = {
        "PORT": str(DEPLOY),
        "MY_IP": first.address,
        "PORT_RANGE_BEGIN": "8770",
        "PORT_RANGE_END": "8777",
        "GAMESERVER_ENGINE": "swarm",
        "GAMESERVER_IMAGE": IMAGE,
        "GAMESERVER_BINARY_PATH": "/game",
        "GAMESERVER_LAUNCH_KEYS": "1",
        "GAMESERVER_STARTUP_MB": "64",
        "GAMESERVER_CPUS": "0.1",
        "HUNT_WORKER": "1",
        "DOCKER_HOST": f"unix://{first.socket}",
        SIGNING_KEY: signing_keys()[0],
    }
    agent = {"SVC_NODE_FILE": str(file), "DOCKER_HOST": f"unix://{second.socket}"}
    services = (
        ServiceOn("svc-metagame", host, metagame, METAGAME, namespace=first.namespace),
        ServiceOn("svc-deploy", rest, deploy, DEPLOY, namespace=first.namespace),
        ServiceOn("svc-agent", rest, agent, METAGAME, namespace=second.namespace),
    )
    with ExitStack() as ends:
        for service in services:
            service.start()
            ends.callback(service.stop)
        yield services


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


def grant(machine: SwarmMachine, player: dict[str, str]) -> str:
    """Return what the metagame answers to the machine's game server, which acts for a player."""
    [name] = containers(machine)
    key = machine.docker("exec", name, "/bin/cat", "/tmp/arguments").stdout.split()[0]
    words = ["/bin/busybox", "wget", "-q", "-O", "-", "--post-data", "{}"]
    words += ["--header", f"x-svc-gameserver-apikey: {key}"]
    url = f"http://127.0.0.1:{METAGAME}/progression/{player['id']}"
    reply = machine.docker("exec", name, *words, url, check=False)
    return reply.stdout + reply.stderr


def test_a_hunt_on_another_machine_writes_and_ends_when_cut_off(tmp_path: Path) -> None:
    with fleet(2, joined=2) as (first, second):
        first.docker("node", "update", "--availability", "pause", first.node)
        with two_machines(tmp_path, first, second) as (metagame, _, agent):
            ann, eve = register(metagame, "Ann_1"), register(metagame, "Eve_1")
            assert join(metagame, ann) == second.address
            assert '"code":"OK"' in grant(second, ann)
            assert "403" in grant(second, eve)

            first.docker("node", "update", "--availability", "active", first.node)
            second.connect("down")
            began = time.monotonic()
            eventually(lambda: containers(second) == [], pause_s=0.5)
            assert time.monotonic() - began > LOST_S - 15
            assert join(metagame, ann) == first.address

            second.connect("up")
            eventually(lambda: "answers again" in agent.log)
