"""The content server as a real process, with real sockets and a metagame that restarts.

Real processes are needed because the tests measure the content server's memory and restart the
metagame.
"""

import hashlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from svcserver.content.manifest_builder import build_manifest
from tests.support.processes import Service, eventually, free_port
from tests.support.proves import proves
from tests.support.requirements import skip

MB = 1024 * 1024
BIG = 24 * MB
FILES = "/content/v1/files/"


class Metagame:
    """A fake metagame that accepts every key ``UUK_<name>`` and can be restarted."""

    def __init__(self) -> None:
        self.port = free_port()
        self.requests = 0
        self.start()

    def start(self) -> None:
        outer, self.links = self, list[socket.socket]()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                outer.links.append(self.connection)

            def do_GET(self) -> None:
                outer.requests += 1
                key = self.headers.get("x-svc-user-api-key", "")
                name = key.removeprefix("UUK_")
                known = name != key
                body = json.dumps({"UserId": f"UID-{name}", "Username": name}).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        for link in self.links:  # also idle connections, because a dead process answers nobody
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        self.server.server_close()
        self.thread.join()


class Content:
    """A running ``svc-content`` that serves its own folder."""

    def __init__(self, root: Path, size: int = BIG) -> None:
        self.root, self.port, self.metagame = root, free_port(), Metagame()
        folder = root / "game"
        folder.mkdir()
        self.big = os.urandom(MB) * (BIG // MB)
        with open(folder / "big.pak", "wb") as file:
            for _ in range(size // BIG):
                file.write(self.big)
            file.write(self.big[: size % BIG])
        (folder / "other.pak").write_bytes(self.big)
        (folder / "small.bin").write_bytes(b"small")
        self.manifest = build_manifest(folder, "1.4.4", root / "manifest.json")
        environ = {
            "PORT": str(self.port),
            "CONTENT_GAME_DIR": str(folder),
            "METAGAME_URL": f"http://127.0.0.1:{self.metagame.port}",
        }
        self.service = Service("svc-content", root, environ, self.port)
        self.service.start()

    def ask(self, path: str, key: str = "UUK_ann", **headers: str) -> http.client.HTTPResponse:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        head = {name.replace("_", "-"): value for name, value in headers.items()}
        head |= {"x-svc-user-api-key": key, "Connection": "close"}
        link.request("GET", path, headers=head)
        return link.getresponse()

    def read(self, path: str, key: str = "UUK_ann", **headers: str) -> tuple[int, bytes]:
        reply = self.ask(path, key, **headers)
        with reply:
            return reply.status, reply.read()

    def downloads(self) -> list[dict[str, Any]]:
        whole, _, _ = self.service.log.rpartition("\n")  # the last line may be incomplete
        lines = [json.loads(line) for line in whole.splitlines() if line[:1] == "{"]
        return [line for line in lines if line.get("message") == "download"]

    def close(self) -> None:
        self.service.stop()
        with suppress(OSError):
            self.metagame.stop()


@pytest.fixture
def content(tmp_path: Path) -> Iterator[Content]:
    with closing(Content(tmp_path)) as running:
        yield running


def slow_reader(port: int, key: str, path: str = FILES + "big.pak") -> socket.socket:
    """Connect a client that sends a request and never reads the response."""
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect(("127.0.0.1", port))
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nx-svc-user-api-key: {key}\r\n\r\n"
    link.sendall(head.encode())
    return link


@proves("GET, HEAD /content/v1/files/<path>")
def test_an_interrupted_download_is_resumed_and_the_hash_matches(
    content: Content, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        raise skip("curl", "it is not installed")
    target = tmp_path / "big.part"
    url = f"http://127.0.0.1:{content.port}{FILES}big.pak"
    command = ["curl", "-s", "-f", "-H", "x-svc-user-api-key: UUK_ann", "-o", str(target), url]
    started = subprocess.Popen([*command, "--limit-rate", "20M"])
    eventually(lambda: target.exists() and target.stat().st_size > MB)
    started.kill()
    started.wait(10)
    assert 0 < target.stat().st_size < BIG
    subprocess.run([*command, "-C", "-"], check=True, timeout=60)
    result = hashlib.sha256(target.read_bytes()).hexdigest()
    assert result == content.manifest.files["big.pak"].sha256
    eventually(lambda: len(content.downloads()) >= 2)
    first, second = sorted(content.downloads()[:2], key=lambda entry: entry["complete"])
    assert first["complete"] is False and second["complete"] is True
    assert second["status"] == 206 and second["range"].endswith(f"-{BIG - 1}")
    assert "UUK_" not in content.service.log


@proves("content: 429 too_many_streams", "content: 503 server_busy", "limit: Content streams")
def test_downloads_above_48_wait_and_memory_stays_flat(content: Content) -> None:
    before = content.service.rss()
    links = [slow_reader(content.port, f"UUK_{n // 6}") for n in range(48)]
    try:
        for link in links:
            assert link.recv(12) == b"HTTP/1.1 200"
        status, body = content.read(FILES + "small.bin", "UUK_late")
        assert (status, json.loads(body)) == (503, {"error": "server_busy"})
        status, body = content.read(FILES + "small.bin", "UUK_0")
        assert (status, json.loads(body)) == (429, {"error": "too_many_streams"})
        assert content.service.rss() - before < 48 * MB // 2
        for link in links[:6]:
            link.close()
        eventually(lambda: content.read(FILES + "small.bin", "UUK_late")[0] == 200)
    finally:
        for link in links:
            link.close()

    def whole(number: int) -> str:
        reply = content.ask(FILES + "big.pak", f"UUK_{number // 6}")
        digest = hashlib.sha256()
        with reply:
            while chunk := reply.read(MB):
                digest.update(chunk)
        return digest.hexdigest()

    eventually(lambda: content.read(FILES + "small.bin", "UUK_0")[0] == 200)
    eventually(lambda: sum(not download["complete"] for download in content.downloads()) >= 48)
    with ThreadPoolExecutor(48) as pool:
        hashes = set(pool.map(whole, range(48)))
    assert hashes == {content.manifest.files["big.pak"].sha256}
    assert content.service.rss() - before < 48 * MB


@proves("content: 503 file_unavailable")
def test_a_truncated_file_ends_its_download_and_no_other(content: Content) -> None:
    stalled = slow_reader(content.port, "UUK_ann")
    second = slow_reader(content.port, "UUK_bob", FILES + "other.pak")
    with stalled, second:
        assert stalled.recv(12) == second.recv(12) == b"HTTP/1.1 200"
        os.truncate(content.root / "game/big.pak", 12 * MB)
        received = 12
        stalled.settimeout(20)
        with suppress(ConnectionResetError):
            while data := stalled.recv(MB):
                received += len(data)
        assert received < BIG, "a cut file must not look whole"
        second.settimeout(20)
        received = 12
        while received < BIG:
            received += len(second.recv(MB))
    assert content.read(FILES + "big.pak")[0] == 503
    assert content.read(FILES + "other.pak")[1] == content.big


@proves("key check through the metagame, both caches", "content: 503 auth_unavailable")
def test_a_restart_of_the_metagame_disturbs_no_download(content: Content) -> None:
    running = slow_reader(content.port, "UUK_ann")
    with running:
        assert running.recv(12) == b"HTTP/1.1 200"
        content.metagame.stop()
        assert content.read(FILES + "small.bin") == (200, b"small"), "a kept key still opens"
        reply = content.ask(FILES + "small.bin", "UUK_new")
        with reply:
            assert reply.status == 503 and reply.headers["Retry-After"] == "5"
            assert json.loads(reply.read()) == {"error": "auth_unavailable"}
        content.metagame.start()
        assert content.read(FILES + "small.bin", "UUK_new") == (200, b"small")
        running.settimeout(20)
        received = 12
        while received < BIG:
            received += len(running.recv(MB))


@proves("one byte range per request, resumed through the gateway")
def test_requests_on_one_connection_follow_each_other(content: Content) -> None:
    link = http.client.HTTPConnection("127.0.0.1", content.port, timeout=30)
    for first in range(0, 20 * MB, 5 * MB):
        headers = {"x-svc-user-api-key": "UUK_ann", "Range": f"bytes={first}-{first + MB - 1}"}
        link.request("GET", FILES + "big.pak", headers=headers)
        reply = link.getresponse()
        assert (reply.status, reply.read()) == (206, content.big[first : first + MB])
        link.request("GET", "/content/v1/manifest")
        assert link.getresponse().read() == content.manifest.dump()
        link.request("HEAD", FILES + "big.pak", headers=headers)
        assert link.getresponse().read() == b""
    link.close()
    assert content.metagame.requests == 1


@proves("one byte range per request, resumed through the gateway")
def test_pipelined_requests_are_answered_in_order(content: Content) -> None:
    head = " HTTP/1.1\r\nHost: localhost\r\nx-svc-user-api-key: UUK_ann\r\n"
    small = f"GET {FILES}small.bin{head}\r\n"
    part = f"GET {FILES}big.pak{head}Range: bytes=0-{3 * MB - 1}\r\n\r\n"
    manifest = f"GET /content/v1/manifest{head}\r\n"
    received = b""
    with socket.create_connection(("127.0.0.1", content.port), timeout=20) as link:
        last = manifest.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
        link.sendall(((small + part + manifest) * 10 + last).encode())
        while data := link.recv(MB):
            received += data
    for _ in range(10):
        for body in (b"small", content.big[: 3 * MB], content.manifest.dump()):
            head_end = received.index(b"\r\n\r\n") + 4
            assert received.startswith(b"HTTP/1.1 20")
            assert received[head_end : head_end + len(body)] == body
            received = received[head_end + len(body) :]
    assert received.endswith(content.manifest.dump())
