"""A host with large game files, whose bytes are generated and counted while they are sent."""

import hashlib
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field

BLOCK = 1 << 20
KEY = "UUK_" + "0a" * 24


def content(name: str, start: int, end: int) -> Iterator[bytes]:
    """Yield bytes ``start`` to ``end`` of a file.

    Each block of the file holds the block's number and random-looking bytes.
    """
    noise = hashlib.sha256(name.encode()).digest() * (BLOCK // 32)
    for number in range(start // BLOCK, -(-end // BLOCK)):
        block = number.to_bytes(16, "big") + noise[16:]
        first, last = number * BLOCK, (number + 1) * BLOCK
        yield block[max(0, start - first) : BLOCK - max(0, last - end)]


def sha256(name: str, size: int) -> str:
    """Return the SHA-256 hash of a file."""
    result = hashlib.sha256()
    for part in content(name, 0, size):
        result.update(part)
    return result.hexdigest()


@define
class Served:
    """The files that the host offers, and a record of the bytes that it has sent.

    Downloads pause when the host has sent ``most`` bytes in total.
    """

    sizes: dict[str, int]
    hashes: dict[str, str] = field(factory=dict)
    sent: Counter[str] = field(factory=Counter)
    blocks: list[tuple[str, int]] = field(factory=list)  # file, and from which byte on
    port: int = 0
    most: float = math.inf
    _condition: threading.Condition = field(factory=threading.Condition, init=False)

    @property
    def total(self) -> int:
        """Return the size of all files together, in bytes."""
        return sum(self.sizes.values())

    def hold(self, most: float) -> None:
        """Pause every download after this total number of bytes has been sent."""
        with self._condition:
            self.most = most
            self._condition.notify_all()

    def send(self, name: str, size: int) -> None:
        """Count the bytes of a file before they are sent; block while the limit is reached."""
        with self._condition:
            while self.sent.total() >= self.most:
                self._condition.wait()
            self.sent[name] += size

    def manifest(self) -> dict[str, Any]:
        """Return the file manifest in the format that hosts serve."""
        files = [
            {"path": name, "size": size, "sha256": self.hashes[name]}
            for name, size in sorted(self.sizes.items())
        ]
        program = files[0]["path"]
        return {"build": "1", "totalBytes": self.total, "files": files, "program": program}

    def answer(self, path: str) -> Any:
        """Answer a request for anything other than a file."""
        match path:
            case "/svc/api/ServerStatus":
                return {"name": "Big", "contentPort": self.port, "players": [], "limited": False}
            case "/svc/api/Register":
                return {"UUK": KEY}
            case "/svc/api/GetUserInfo":
                return {"UserId": "7", "Username": "Bo_1", "IsAdmin": False}
            case "/content/v1/manifest":
                return self.manifest()
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        served: Served = self.server.served  # type: ignore[attr-defined]
        path = self.path.partition("?")[0]
        name = path.removeprefix("/content/v1/files/")
        if name in served.sizes:
            self._file(served, name)
            return
        result = served.answer(path)
        body = json.dumps(result or {}).encode()
        self.send_response(404 if result is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    def _file(self, served: Served, name: str) -> None:
        size, request = (
            served.sizes[name],
            re.match(r"bytes=(\d+)-\Z", self.headers.get("Range", "")),
        )
        start = int(request[1]) if request else 0
        served.blocks.append((name, start))
        self.send_response(206 if request else 200)
        self.send_header("Content-Length", str(size - start))
        self.send_header("ETag", f'"{served.hashes[name]}"')
        if request:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()
        try:
            for part in content(name, start, size):
                served.send(name, len(part))
                self.wfile.write(part)
        except OSError:
            self.close_connection = True  # the launcher was killed

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a killed launcher breaks its connection."""


@contextmanager
def host_of(count: int, size: int) -> Iterator[Served]:
    """Run a private host with ``count`` files of ``size`` bytes each."""
    served = Served({f"data/part_{n}.pak": size for n in range(count)})
    served.hashes = {name: sha256(name, size) for name in served.sizes}
    server = _Server(("127.0.0.1", 0), _Handler)
    server.served = served  # type: ignore[attr-defined]
    served.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
