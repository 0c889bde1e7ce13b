"""Relay and gateway as real processes in front of a tiny upstream.

Real processes are needed because the tests use signals and inherited sockets, and measure the
memory of gateway and relay.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from tests.live.edge_host import DEADLINE_S, ROOT, SECRET, Host, fingerprint_of, memory_of, running
from tests.support.processes import eventually
from tests.support.proves import proves
from tests.support.requirements import skip

pytestmark = pytest.mark.live
GET = b"GET /g HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    plenty = {"GATEWAY_RATE_REGISTER": "3,0.2", "GATEWAY_HEADERS_TIMEOUT_MS": "1000"}
    plenty["GATEWAY_HANDSHAKE_TIMEOUT_MS"] = "1000"
    with running(tmp_path_factory.mktemp("edge"), **plenty) as up:
        yield up


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(DEADLINE_S)
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def is_closed(port: int) -> bool:
    """Return whether no program listens on the port any more."""
    with socket.socket() as late:
        return late.connect_ex(("127.0.0.1", port)) != 0


@proves("authentication 8: forwarding headers stripped and set", "gateway: everything else")
def test_a_request_passes_relay_and_gateway_with_the_gateways_headers(host: Host) -> None:
    status, _, body = host.ask("POST", "/a?b=%20c", "hello", **{"X-Forwarded-For": "6.6.6.6"})
    reply = orjson.loads(body)
    headers = dict(reply["headers"])
    assert (status, reply["path"], reply["body"]) == (200, "/a?b=%20c", "hello")
    assert headers["X-Forwarded-For"] == "127.0.0.1"
    assert headers["X-Svc-Gateway"] == SECRET
    assert headers["X-Forwarded-Proto"] == "https"


@proves("gateway: 403 forbidden")
def test_the_gateways_refusals_reach_the_game(host: Host) -> None:
    for method, path, status in (
        ("GET", "/svc/api/InviteCodes", 403),
        ("GET", "/a/../b", 400),
        ("POST", "/%2e", 400),
    ):
        assert host.ask(method, path)[0] == status
    assert host.ask("GET", "/x", **{"X-Svc-GameServer-ApiKey": "k"})[0] == 403
    assert host.ask("POST", "/x", "x" * 131_073)[0] == 413


@proves("gateway: 429 rate_limited")
def test_one_address_that_floods_is_limited(host: Host) -> None:
    results = [host.ask("POST", "/svc/api/Register", "{}") for _ in range(4)]
    assert [status for status, _, _ in results] == [200, 200, 200, 429]
    # less the time that the four requests took
    assert 200 < int(results[-1][1]["Retry-After"]) <= 300


@proves("event: allowlist report after a 2xx, once per period, never waited for")
def test_a_heartbeat_is_reported_to_the_helper(host: Host) -> None:
    host.ask("POST", "/heartbeat", "{}", Authorization="Bearer x")
    eventually(lambda: [entry for entry in host.received if entry["path"] == "/allow"])
    [report] = [entry for entry in host.received if entry["path"] == "/allow"]
    assert report["body"] == '{"ip":"127.0.0.1"}'
    assert dict(report["headers"])["X-Allowlist-Secret"] == SECRET


@proves("gateway: GET with Upgrade: websocket", "relay: WebSocket upgrades")
def test_a_websocket_passes_relay_and_gateway(host: Host) -> None:
    with socket.create_connection(("127.0.0.1", host.relay_port), DEADLINE_S) as game:
        game.sendall(
            b"GET // HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-Fetch-Mode: websocket\r\n\r\n"
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += game.recv(4096)
        assert b" 101 " in head
        game.sendall(b"hello")
        assert game.recv(4096) == b"HELLO"


@proves("relay: forwards every request unchanged")
def test_a_half_closed_connection_still_gets_its_answer(host: Host) -> None:
    with socket.create_connection(("127.0.0.1", host.relay_port), DEADLINE_S) as game:
        game.sendall(b"POST /half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi")
        game.shutdown(socket.SHUT_WR)
        reply = read_all(game)
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert b'"body":"hi"' in reply


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_the_certificate_matches_the_pin_over_tls_1_2_and_1_3(host: Host) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        bounds = {"minimum_version": version, "maximum_version": version}
        with host.secure(context=bounds) as connection:
            assert fingerprint_of(connection) == host.pair.fingerprint
            connection.sendall(GET)
            assert read_all(connection).startswith(b"HTTP/1.1 200")


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_a_client_that_offers_alpn_is_served(host: Host) -> None:
    for offered, chosen in ((["h2", "http/1.1"], "http/1.1"), (["h2"], None)):
        with host.secure(alpn=offered) as connection:
            assert connection.selected_alpn_protocol() == chosen
            connection.sendall(GET)
            assert read_all(connection).startswith(b"HTTP/1.1 200")


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_tls_sessions_are_resumed(host: Host) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        session, reused = None, []
        for _ in range(2):
            raw = socket.create_connection(("127.0.0.1", host.gateway_port), DEADLINE_S)
            with context.wrap_socket(raw, session=session) as connection:
                connection.sendall(GET)
                read_all(connection)
                session = connection.session
                reused.append(connection.session_reused)
        assert reused == [False, True], version


def test_garbage_and_plain_http_are_dropped_and_others_served(host: Host) -> None:
    for garbage in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x00" * 500, b"\x16\x03\x01\xff\xff"):
        with socket.create_connection(("127.0.0.1", host.gateway_port), DEADLINE_S) as entry:
            entry.sendall(garbage)
            entry.shutdown(socket.SHUT_WR)
            try:
                assert b"HTTP" not in read_all(entry)
            except ConnectionResetError:
                continue
    assert host.ask("GET", "/still")[0] == 200


def test_a_handshake_that_never_comes_is_cut(host: Host) -> None:
    with socket.create_connection(("127.0.0.1", host.gateway_port), DEADLINE_S) as entry:
        try:
            assert read_all(entry) == b""
        except ConnectionResetError:
            return


def test_renegotiation_is_refused(host: Host) -> None:
    if shutil.which("openssl") is None:
        raise skip("openssl", "it is not installed")
    talk = subprocess.run(
        ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{host.gateway_port}"],
        input=b"R\n",
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert b"renegotiation" in talk.stderr.lower()
    assert b"CONNECTED" in talk.stdout


@proves("gateway: 408, 431 request_timeout, headers_too_large")
def test_slow_heads_are_dropped_while_others_are_served(host: Host) -> None:
    with ExitStack() as held:
        slow = []
        for _ in range(20):
            slow.append(held.enter_context(host.secure()))
            slow[-1].sendall(b"GET /slow HT")
        assert host.ask("GET", "/meanwhile")[0] == 200
        for connection in slow:
            assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_an_unread_answer_does_not_fill_the_memory(host: Host) -> None:
    before = memory_of(host.gateway), memory_of(host.relay)
    with socket.create_connection(("127.0.0.1", host.relay_port), DEADLINE_S) as game:
        game.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        game.recv(100)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            assert host.ask("GET", "/meanwhile")[0] == 200
        after = memory_of(host.gateway), memory_of(host.relay)
        assert max(new - old for old, new in zip(before, after, strict=True)) < 16 << 20
        count = 100
        while data := game.recv(1 << 20):
            count += len(data)
        assert count > 64 << 20


@proves("gateway: log lines and redaction")
def test_the_log_has_a_line_for_every_request_and_no_secret(host: Host) -> None:
    host.ask("GET", "/logged?token=hush", **{"User-Agent": "tester"})

    def lines() -> list[dict[str, object]]:
        whole, _, _ = host.logs[0].read_bytes().rpartition(b"\n")  # the last line may be incomplete
        return [orjson.loads(line) for line in whole.splitlines() if line.startswith(b"{")]

    def logged() -> list[dict[str, object]]:
        return [entry for entry in lines() if str(entry.get("target", "")).startswith("/logged")]

    eventually(logged)
    [line] = logged()
    assert (line["message"], line["status"], line["ua"]) == ("request", 200, "tester")
    assert line["target"] == "/logged?token=<redacted>"
    text = host.logs[0].read_text() + host.logs[1].read_text()
    assert SECRET not in text
    assert "hush" not in text
    [ready] = [entry for entry in lines() if entry["message"] == "gateway ready"]
    assert ready["fingerprint"] == host.pair.fingerprint


@proves("gateway: shutdown")
def test_a_stopping_gateway_finishes_and_frees_its_port(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        assert up.ask("GET", "/x")[0] == 200
        up.gateway.terminate()
        up.gateway.wait(DEADLINE_S)
        status, _, body = up.ask("GET", "/x")
        assert (status, body) == (502, b'{"error":"upstream_unreachable"}')


@proves("gateway: shutdown")
def test_a_second_signal_waits_for_no_answer(tmp_path: Path) -> None:
    patient = {"GATEWAY_SHUTDOWN_GRACE_MS": "300000", "GATEWAY_REQUEST_TIMEOUT_MS": "600000"}
    with running(tmp_path, **patient) as up, up.secure() as player:
        player.sendall(
            b"POST /x HTTP/1.1\r\nHost: localhost\r\n"
            b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
        assert player.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        up.gateway.terminate()
        eventually(lambda: is_closed(up.gateway_port))
        assert up.gateway.poll() is None  # the gateway waits for the body
        up.gateway.terminate()
        up.gateway.wait(DEADLINE_S)
        assert '"target":"/x","route":"metagame","status":0' in up.logs[0].read_text()


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_a_socket_that_systemd_opened_is_served(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, running(tmp_path, listener=str(listener.fileno())) as up:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        raw = socket.create_connection(listener.getsockname(), DEADLINE_S)
        with context.wrap_socket(raw) as player:
            player.sendall(GET)
            assert read_all(player).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionRefusedError):  # the inherited socket is the only one
            socket.create_connection(("127.0.0.1", up.gateway_port), DEADLINE_S)


@proves("settings of the gateway")
def test_a_failed_start_is_one_line_and_a_status(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "twistd"), "--nodaemon", "--pidfile=", "svc-gateway"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GATEWAY_CERT": "x"},
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode != 0
    output = (done.stdout + done.stderr).decode().strip()
    assert output.startswith("svc-gateway: GATEWAY_")
    assert "\n" not in output
