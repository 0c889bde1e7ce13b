"""A hostile web page in a browser on the host: the page must not start, read or change anything.

Real processes are needed because the deploy server and the metagame start other services.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import pytest

from tests.live.test_deploy import CITY, PATH, deploy, servers
from tests.support.processes import Service, free_port, metagame
from tests.support.proves import proves

pytestmark = pytest.mark.live
SECRET = "s" * 40
# a content type that a page may send without a preflight request
TEXT = {"Content-Type": "text/plain;charset=UTF-8"}


def pages(port: int) -> dict[str, dict[str, str]]:
    """Return a dict from kinds of foreign pages to the headers that a browser sends for them."""
    return {
        "another site": {**TEXT, "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        "an old browser": {**TEXT, "Origin": "http://evil.example"},
        "a sandboxed frame": {**TEXT, "Origin": "null"},
        "a form": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        "a rebound name": {
            "Host": f"evil.example:{port}",
            "Origin": f"http://evil.example:{port}",
            "Sec-Fetch-Site": "same-origin",
        },
        "a rebound name, reading": {"Host": f"evil.example:{port}"},
    }


def owners(port: int) -> dict[str, dict[str, str]]:
    """Return the headers that programs and the owner's own browser send."""
    return {
        "a program": {},
        "by name": {"Host": f"localhost:{port}"},
        "by the machine's name": {"Host": f"{socket.gethostname()}:{port}"},
        "IPv6": {"Host": f"[::1]:{port}"},
        "through SSH": {"Host": "localhost:8080"},
        "a typed address": {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        "the page itself": {
            "Origin": f"http://127.0.0.1:{port}",
            "Sec-Fetch-Site": "same-origin",
        },
        "a link": {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
        },
    }


def only_owners_pass(ask: Callable[[dict[str, str]], int], port: int) -> None:
    """Assert that hostile pages' requests are rejected and the owner's requests are accepted."""
    assert {name: ask(sent) for name, sent in pages(port).items()} == dict.fromkeys(
        pages(port), 403
    )
    assert {name: ask(sent) for name, sent in owners(port).items()} == dict.fromkeys(
        owners(port), 200
    )


@proves("credential: foreign web pages")
def test_no_page_starts_or_lists_a_game_server(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        before = servers(service)
        for name, sent in pages(service.port).items():
            status, body = service.ask("POST", PATH, CITY, sent)
            assert status == 403, (name, body)
        assert servers(service) == before
        only_owners_pass(
            lambda sent: service.ask("GET", "/gameservers", None, sent)[0], service.port
        )
        assert service.ask("POST", PATH, CITY, {"Host": f"localhost:{service.port}"})[0] == 200


@proves("credential: foreign web pages")
def test_no_page_reads_the_owners_or_the_figures(tmp_path: Path) -> None:
    shown = free_port()
    with metagame(tmp_path, METRICS_PORT=str(shown), REGISTRATION_MODE="OPEN") as service:
        figures = Service("figures", tmp_path, {}, shown)
        for request, path in ((service, "/svc/dashboard"), (figures, "/metrics")):
            only_owners_pass(
                lambda sent, service=request, path=path: service.ask("GET", path, None, sent)[0],  # type: ignore[misc]
                request.port,
            )
        for name, sent in pages(service.port).items():
            assert service.ask("POST", "/svc/api/CreateInvite", {}, sent)[0] in (401, 403), name
        page = figures.ask("GET", "/metrics")[1].decode()
        for reason in ("host", "origin", "sec_fetch"):
            assert f'svc_metagame_refusals_total{{reason="{reason}"}}' in page


@contextmanager
def helper(folder: Path) -> Iterator[Service]:
    port = free_port()
    environ = {
        "ALLOWLIST_SECRET": SECRET,
        "ALLOWLIST_PORT": str(port),
        "ALLOWLIST_DRY_RUN": "1",
        "ALLOWLIST_AUDIT_LOG": str(folder / "audit.log"),
        "ALLOWLIST_STATE_FILE": str(folder / "state.json"),
    }
    service = Service("svc-allowlist", folder, environ, port)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def test_no_page_opens_a_port_even_with_the_secret(tmp_path: Path) -> None:
    with helper(tmp_path) as service:
        key = {"X-Allowlist-Secret": SECRET}
        only_owners_pass(
            lambda sent: service.ask("GET", "/status", None, {**key, **sent})[0], service.port
        )
        for sent in pages(service.port).values():
            assert service.ask("POST", "/allow", {"ip": "203.0.113.7"}, {**key, **sent})[0] == 403
        status, body = service.ask("GET", "/status", None, key)
        assert (status, orjson.loads(body)["entries"]) == (200, [])


def test_no_rebound_name_reads_the_content_server(tmp_path: Path) -> None:
    game = tmp_path / "game"
    game.mkdir()
    (game / "a.bin").write_bytes(b"x")
    manifest = tmp_path / "manifest.json"
    with ExitStack() as running:
        port = free_port()
        make_manifest(game, manifest)
        environ = {
            "PORT": str(port),
            "CONTENT_GAME_DIR": str(game),
            "GATEWAY_SECRET": SECRET,
        }
        service = Service("svc-content", tmp_path, environ, port)
        service.start()
        running.callback(service.stop)
        for path in ("/content/v1/manifest", "/content/v1/news"):
            rebound = {"Host": f"evil.example:{port}"}
            assert service.ask("GET", path, None, rebound)[0] == 403
            for forged in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Via", "X-Svc-Gateway"):
                sent = {**rebound, forged: "203.0.113.7"}
                assert service.ask("GET", path, None, sent)[0] == 403, forged
            for name, sent in owners(port).items():
                assert service.ask("GET", path, None, sent)[0] == 200, name
            through = {
                "Host": "play.example.org",
                "X-Forwarded-For": "203.0.113.7",
                "X-Svc-Gateway": SECRET,
            }
            assert service.ask("GET", path, None, through)[0] == 200


def make_manifest(game: Path, manifest: Path) -> None:
    """Write the manifest as ``svcctl content manifest`` does."""

    svcctl = str(Path(sys.executable).with_name("svcctl"))
    command = [svcctl, "content", "manifest", str(game), "--build", "1", "--out", str(manifest)]
    subprocess.run(command, check=True, env=os.environ, capture_output=True)
