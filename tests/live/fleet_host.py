"""A metagame with the fleet's listener, and a stand-in for the deploy server of a swarm."""

import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
from attrs import define, field

from svcserver.edge.nodes import Credential, FleetFolder
from svcserver.kernel.headers import MATCH
from svcserver.kernel.secrets import fingerprint
from tests.live.attacks.test_hunts import TUTORIAL
from tests.support.processes import Service, bearer, free_port, metagame, register

NODE = "node1"
ADDRESS = "127.0.0.1"
KEY = "a" * 64
PATIENCE_S = 30.0


@define
class SwarmDeploy:
    """A deploy server whose only hunt runs on ``NODE`` with the launch key ``KEY``."""

    port: int
    match: str = ""  # of the hunt that runs; empty if none runs
    looks: int = 0  # how often it was told to list its game servers
    server: Any = field(default=None, init=False)

    def answer(self, method: str, path: str, match: str) -> tuple[int, Any]:
        if path == "/gameservers/look":
            self.looks += 1
            return 200, {}
        if path == "/gameservers/check":
            return 200, {"image": "", "trial": None}
        if method == "POST":
            self.match = match
            return 200, {"host": ADDRESS, "port": 8770, "node": NODE}
        if path.startswith("/gameservers/key"):
            if not self.match or not path.endswith(fingerprint(KEY)):
                return 200, {"known": False}
            hunt = {"kind": "hunt", "host": ADDRESS, "port": 8770}
            reply = {"known": True, "node": NODE, "match": self.match, "players": []}
            return 200, reply | hunt
        return 200, {"servers": []}

    def start(self) -> None:
        deploy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # the metagame keeps connections, also to HTTP/1.0

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                match = self.headers.get(MATCH.decode(), "")
                status, reply = deploy.answer(self.command, self.path, match)
                body = orjson.dumps(reply)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *words: Any) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@define
class FleetHost:
    """A host with a fleet of one node."""

    metagame: Service
    deploy: SwarmDeploy
    fleet: FleetFolder
    port: int

    def issue(self, node: str = NODE) -> bytes:
        return self.fleet.issue(node, ADDRESS, "127.0.0.1", self.port)

    def player_in_hunt(self, name: str) -> dict[str, str]:
        """Return a player who has been sent to the hunt."""
        player = register(self.metagame, name)
        status, body = self.metagame.ask("POST", "/candidate/join", TUTORIAL, bearer(player))
        assert status == 200, body
        return player

    def status(self, player: dict[str, str]) -> Any:
        status, body = self.metagame.ask("GET", "/candidate/status", None, bearer(player))
        assert status == 200, body
        return orjson.loads(body)


@contextmanager
def fleet_host(folder: Path, **environ: str) -> Iterator[FleetHost]:
    fleet, deploy, port = FleetFolder(folder / "fleet"), SwarmDeploy(free_port()), free_port()
    fleet.prepare()
    deploy.start()
    settings = {
        "FLEET_PORT": str(port),
        "GAMESERVER_ALLOW_FROM": "127.0.0.1",
        "DEPLOYSERVER_URL": f"127.0.0.1:{deploy.port}",
        "MATCHMAKING_MODE": "DEPLOYSERVER",
        **environ,
    }
    try:
        with metagame(folder, **settings) as service:
            yield FleetHost(service, deploy, fleet, port)
    finally:
        deploy.stop()


@contextmanager
def node(
    host: FleetHost, folder: Path, credential: bytes | None
) -> Iterator[http.client.HTTPConnection]:
    """Yield a TLS connection to the fleet's listener; ``credential`` is the node's credential."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if credential is not None:
        pair = Credential.parse(credential).pair
        file = folder / "node.pem"
        file.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file)
    address = ("127.0.0.1", host.port)
    connection = http.client.HTTPSConnection(*address, timeout=PATIENCE_S, context=context)
    try:
        yield connection
    finally:
        connection.close()


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, key: str = KEY
) -> tuple[int, bytes]:
    connection.request(method, path, b"{}", {"x-svc-gameserver-apikey": key})
    reply = connection.getresponse()
    return reply.status, reply.read()


@contextmanager
def agent(host: FleetHost, folder: Path, node: str = NODE, **environ: str) -> Iterator[Service]:
    """Run the agent of a node; game servers call the port of the returned service."""
    file, port = folder / "svc-node", free_port()
    file.write_bytes(host.issue(node))
    settings = {"SVC_NODE_FILE": str(file), "SVC_RELAY_PORT": str(port)}
    settings |= {"DOCKER_HOST": f"unix://{folder}/none.sock", **environ}
    service = Service("svc-agent", folder, settings, port)
    service.start()
    try:
        yield service
    finally:
        service.stop()
