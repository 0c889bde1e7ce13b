"""Large responses that clients do not read: together they must not exceed a memory limit.

Real processes are needed because the memory of the service is measured.
"""

import http.client
import signal
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import orjson
import pytest

from tests.live.edge_host import DEADLINE_S, await_ready, memory_of, start
from tests.support.processes import free_port

pytestmark = pytest.mark.live

CONNECTIONS, FILES = 40, 70_000  # files of a manifest that is a little over 8 MB
MOST = 96 << 20  # bytes of memory that may be added: the bound, copies of one answer, some air
ASK = b"GET /content/v1/manifest HTTP/1.1\r\nHost: localhost\r\n\r\n"


def manifest(folder: Path) -> Path:
    """Write a long manifest; the files it lists need not exist."""
    files = [{"path": f"data/part{n:06}.pak", "size": 0, "sha256": "0" * 64} for n in range(FILES)]
    path = folder / "manifest.json"
    path.write_bytes(orjson.dumps({"build": "test", "totalBytes": 0, "files": files}))
    (folder / "game").mkdir()
    return path


def greedy(port: int) -> socket.socket:
    """Connect a client that sends requests, never reads, and has a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.connect(("127.0.0.1", port))
    client.sendall(ASK)
    return client


def test_answers_that_nobody_reads_have_a_bound_together(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "content.log"
    environ = {
        "BIND_HOST": "127.0.0.1",
        "PORT": str(port),
        "CONTENT_GAME_DIR": str(tmp_path / "game"),
        "CONTENT_MANIFEST": str(manifest(tmp_path)),
    }
    process = start("svc-content", environ, log)
    try:
        await_ready(process, log)
        size, before = read(port), memory_of(process)
        with ExitStack() as held:
            for _ in range(CONNECTIONS):
                held.enter_context(closing(greedy(port)))
            assert read(port) == size  # a client that reads is served
            assert memory_of(process) - before < MOST < CONNECTIONS * size // 2
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


def read(port: int) -> int:
    """Download the manifest as a normal client does; return the number of bytes."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)) as client:
        client.request("GET", "/content/v1/manifest")
        return len(client.getresponse().read())
