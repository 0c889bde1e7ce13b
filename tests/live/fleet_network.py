"""A host's services on machines that each have their own network."""

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from svcserver.edge.nodes import FleetFolder
from svcserver.kernel.machine import SIGNING_KEY
from tests.live.swarm_engine import IMAGE, SwarmMachine
from tests.support.game import signing_keys
from tests.support.processes import Service, metagame_environ

METAGAME, DEPLOY, FLEET = 61000, 61001, 61020
NEW_NETWORK = 0x4000_0000  # CLONE_NEWNET
GATEWAY = "g" * 40  # a gateway's secret, for requests that come from players' addresses
CALL_S = 30.0


def enter(namespace: str) -> None:
    """Move the calling thread, which must not be the main thread, into another network."""
    with open(f"/run/netns/{namespace}", "rb") as file:
        assert ctypes.CDLL(None).setns(file.fileno(), NEW_NETWORK) == 0


def connect(namespace: str, port: int) -> socket.socket:
    """Connect to a port on the loopback address of another network."""
    opened: list[socket.socket] = []

    def work() -> None:
        enter(namespace)
        opened.append(socket.create_connection(("127.0.0.1", port), CALL_S))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return opened[0]


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

    def restart(self) -> None:
        """Kill the service, and start it again."""
        self.stop(signal.SIGKILL)
        self.start()

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


@define
class NetworkedHost:
    """A metagame and a deploy server on a manager, and agents on other machines."""

    folder: Path
    manager: SwarmMachine
    metagame: ServiceOn
    deploy: ServiceOn
    nodes: FleetFolder
    ends: ExitStack = field(factory=ExitStack)

    def start(self, service: ServiceOn) -> ServiceOn:
        """Start a service, which is stopped when the host ends."""
        service.start()
        self.ends.callback(service.stop)
        return service

    def agent(self, machine: SwarmMachine) -> ServiceOn:
        """Accept a machine that has joined the swarm, and start its agent."""
        folder = self.folder / machine.namespace
        folder.mkdir()
        file = folder / "svc-node"
        credential = self.nodes.issue(machine.node, machine.address, self.manager.address, FLEET)
        file.write_bytes(credential)
        environ = {"SVC_NODE_FILE": str(file), "DOCKER_HOST": f"unix://{machine.socket}"}
        return self.start(
            ServiceOn("svc-agent", folder, environ, METAGAME, namespace=machine.namespace)
        )


@contextmanager
def networked_host(
    folder: Path, manager: SwarmMachine, *workers: SwarmMachine, **deploy: str
) -> Iterator[NetworkedHost]:
    """Start a metagame, and a deploy server with the additional settings ``deploy``."""
    place, rest = folder / "host", folder / "deploy"
    for created in (place, rest):
        created.mkdir()
    nodes = FleetFolder(place / "fleet")
    nodes.prepare()
    metagame = metagame_environ(
        place,
        METAGAME,
        FLEET_PORT=str(FLEET),
        GATEWAY_SECRET=GATEWAY,
        GAMESERVER_ALLOW_FROM=",".join(worker.address for worker in workers),
        DEPLOYSERVER_URL=f"127.0.0.1:{DEPLOY}",
        MATCHMAKING_MODE="DEPLOYSERVER",
    )
    settings = {
        "PORT": str(DEPLOY),
        "MY_IP": manager.address,
        "PORT_RANGE_BEGIN": "8770",
        "PORT_RANGE_END": "8777",
        "GAMESERVER_ENGINE": "swarm",
        "GAMESERVER_IMAGE": IMAGE,
        "GAMESERVER_BINARY_PATH": "/game",
        "GAMESERVER_LAUNCH_KEYS": "1",
        "GAMESERVER_STARTUP_MB": "64",
        "GAMESERVER_CPUS": "0.1",
        "DOCKER_HOST": f"unix://{manager.socket}",
        SIGNING_KEY: signing_keys()[0],
        **deploy,
    }
    space = manager.namespace
    host = NetworkedHost(
        folder,
        manager,
        ServiceOn("svc-metagame", place, metagame, METAGAME, namespace=space),
        ServiceOn("svc-deploy", rest, settings, DEPLOY, namespace=space),
        nodes,
    )
    with host.ends:
        for service in (host.metagame, host.deploy):
            host.start(service)
        yield host
