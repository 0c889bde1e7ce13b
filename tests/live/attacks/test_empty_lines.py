"""Empty lines before a request: a single one is ignored, and several of them hide no request.

Real processes are needed because the tests send bytes to the sockets of each service.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from svcserver.content.manifest import ManifestEntry, make
from tests.live.attacks.support import arrive, over_tls
from tests.live.edge_host import DEADLINE_S, Host, running
from tests.support.processes import Service, free_port, metagame

pytestmark = pytest.mark.live

HEAD = b" HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /svc/api/Register" + HEAD + b"Content-Length: 2\r\n\r\n{}"
CHUNKED = (
    b"POST /svc/api/Register" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
)
LAST = b"GET /svc-status" + HEAD + b"Connection: close\r\n\r\n"
EMPTY = b"\r\n"


def statuses(connection: socket.socket, sent: bytes) -> list[int]:
    """Send ``sent``; return the status of each response until the connection ends."""
    with connection:
        connection.settimeout(DEADLINE_S)
        connection.sendall(sent)
        received = b""
        while more := connection.recv(65_536):
            received += more
    parts = received.split(b"HTTP/1.1 ")
    assert parts[0] == b""
    return [int(part[:3]) for part in parts[1:]]


def test_the_metagame_gives_one_answer_to_each_request(tmp_path: Path) -> None:
    with metagame(tmp_path) as service:

        def ask(sent: bytes) -> list[int]:
            return statuses(arrive(service.port), sent)

        assert ask(EMPTY + POST + EMPTY + CHUNKED + EMPTY + LAST) == [400, 400, 200]
        for sent in (POST, CHUNKED):
            once = ask(sent + EMPTY + EMPTY + LAST)
            assert once[1:] == [400], once
        assert ask(EMPTY + EMPTY + LAST) == [400]


def passed(host: Host) -> list[str]:
    """Return the paths of the requests that reached the upstream."""
    return [entry["path"] for entry in host.received if not entry["path"].startswith("/allowlist")]


def test_gateway_and_relay_pass_on_no_hidden_request(tmp_path: Path) -> None:
    whole = POST + EMPTY + LAST
    with running(tmp_path, GATEWAY_RATE_REGISTER="100,1000") as host:
        for count, connect in enumerate(
            (lambda: over_tls(arrive(host.gateway_port)), lambda: arrive(host.relay_port)), 1
        ):
            assert statuses(connect(), EMPTY + whole) == [200, 200]
            assert passed(host) == ["/svc/api/Register", "/svc-status"] * count
            host.received.clear()
            assert statuses(connect(), POST + EMPTY + EMPTY + LAST) == [200, 400]
            assert passed(host) == ["/svc/api/Register"]
            assert statuses(connect(), EMPTY + EMPTY + LAST) == [400]
            assert passed(host) == ["/svc/api/Register"]
            host.received[:] = [{"path": entry} for entry in ("/svc/api/Register", "/svc-status")]


@pytest.mark.parametrize("name", ["svc-content", "svc-deploy", "svc-allowlist"])
def test_the_other_services_read_empty_lines_alike(tmp_path: Path, name: str) -> None:
    game = tmp_path / "game"
    game.mkdir()
    (game / "a.pak").write_bytes(b"x")
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(make("1", [ManifestEntry("a.pak", 1, "00" * 32)]).dump())
    port, secret = free_port(), "live-secret-live-secret-live-secret"
    environ = {
        "svc-content": {
            "PORT": str(port),
            "CONTENT_GAME_DIR": str(game),
            "CONTENT_MANIFEST": str(manifest),
        },
        "svc-deploy": {"PORT": str(port), "MY_IP": "127.0.0.1"},
        "svc-allowlist": {
            "ALLOWLIST_PORT": str(port),
            "ALLOWLIST_SECRET": secret,
            "ALLOWLIST_DRY_RUN": "1",
        },
    }[name]
    service = Service(name, tmp_path, environ, port)
    service.start()
    try:
        first, last = statuses(arrive(port), EMPTY + POST + EMPTY + LAST)
        assert 400 not in (first, last)
        assert statuses(arrive(port), EMPTY + EMPTY + LAST) == [400]
    finally:
        service.stop()
