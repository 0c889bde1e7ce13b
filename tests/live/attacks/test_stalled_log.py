"""A log that no process reads: the service keeps answering, and reports the dropped lines later.

Real processes are needed because the tests block the pipe that a process writes its log to.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from svcserver.edge.certificate import make_pair, write_pair
from tests.live.attacks.support import arrive, figures, over_tls
from tests.live.edge_host import SECRET
from tests.support import prestarted
from tests.support.prestarted import Prestarted
from tests.support.processes import eventually, free_port, metagame_environ

pytestmark = pytest.mark.live
# each writes a line of 450 bytes; the writer can buffer about half of these lines
REQUESTS = 6_000
AT_ONCE = 20  # requests that are sent before their answers are read
PLACE = "/account/api/public/account"  # answers 200, because log lines of refusals may be omitted
PIPE = 4_096  # bytes that the stalled reader's pipe holds
DEADLINE_S = 30.0
DROPPED = re.compile(rb"(\d+) log lines were dropped")


@contextmanager
def unread(command: list[str], environ: dict[str, str], folder: Path) -> Iterator[Reader]:
    """Run a service; read its output until it is ready, and again only after it has ended."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE)
    whole = {"PATH": os.environ["PATH"], "HOME": str(folder), **environ}
    process = prestarted.start(["--nodaemon", "--pidfile=", *command], whole, folder, write)
    os.close(write)
    reader = Reader(process, read)
    try:
        reader.until_ready()
        yield reader
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE_S)
        os.close(read)


class Reader:
    """The reading end of a pipe, and the process that writes to it."""

    def __init__(self, process: Prestarted, pipe: int) -> None:
        self.process, self.pipe = process, pipe

    def until_ready(self) -> None:
        received = b""
        word = b"stack ready" if "svc-stack" in str(self.process.args) else b"ready"
        while word not in received:
            data = os.read(self.pipe, 65536)
            assert data, received
            received += data

    def last_words(self) -> bytes:
        """Ask the process to end and read its remaining output."""
        self.process.send_signal(signal.SIGTERM)
        results = []
        while data := os.read(self.pipe, 65536):
            results.append(data)
        self.process.wait(DEADLINE_S)
        return b"".join(results)


def flood(connection: socket.socket) -> float:
    """Send many requests with long log lines; return the longest response time in seconds.

    Each round sends ``AT_ONCE`` requests and then reads their responses. With one request a round,
    this client would need more CPU time than the service.
    """
    longest = 0.0
    tail = f"{'long.' * 100} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {'long ' * 80}x\r\n\r\n"
    for first in range(0, REQUESTS, AT_ONCE):
        began = time.monotonic()
        heads = (f"GET {PLACE}/{first + number}.{tail}" for number in range(AT_ONCE))
        connection.sendall("".join(heads).encode())
        received = b""
        while received.count(b"HTTP/1.1 ") < AT_ONCE:
            more = connection.recv(65_536)
            assert more, received
            received += more
        longest = max(longest, time.monotonic() - began)
    connection.close()
    return longest


def survives(reader: Reader, connection: socket.socket, metrics: int) -> None:
    """Assert that every request is answered and that the last log lines report dropped lines."""
    assert flood(connection) < DEADLINE_S / 2
    assert reader.process.poll() is None

    def dropped() -> float:
        shown = figures(metrics).items()
        return sum(number for name, number in shown if "dropped_log_lines_total" in name)

    eventually(lambda: dropped() > 100)  # a fast machine answers all requests before the last flush
    reply = reader.last_words()
    assert sum(int(count) for count in DROPPED.findall(reply)) > 100, reply[-2000:]
    assert f"{PLACE}/{REQUESTS - 1}.".encode() in reply
    assert b"Server Shut Down" in reply[-2000:]


# slow: thousands of long lines fill what a pipe and a writer hold
def test_a_gateway_whose_log_nobody_reads_answers_on(tmp_path: Path) -> None:
    certificate, key = write_pair(make_pair(["127.0.0.1"]), tmp_path)
    port, nobody, metrics = free_port(), free_port(), free_port()
    environ = {
        "GATEWAY_BIND": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "GATEWAY_CERT": str(certificate),
        "GATEWAY_KEY": str(key),
        "GATEWAY_SECRET": SECRET,
        "GATEWAY_METAGAME_URL": f"http://127.0.0.1:{nobody}",
        "GATEWAY_ALLOWLIST": "0",
        "GATEWAY_RATE_GENERAL": "10000,10000",
        "METRICS_PORT": str(metrics),
    }
    with unread(["svc-gateway"], environ, tmp_path) as reader:
        survives(reader, over_tls(arrive(port)), metrics)


# slow: thousands of long lines fill what a pipe and a writer hold
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "under svc-stack"])
def test_a_metagame_whose_log_nobody_reads_answers_on(tmp_path: Path, alone: bool) -> None:
    port, metrics = free_port(), free_port()
    environ, figures_on = metagame_environ(tmp_path, port), {"METRICS_PORT": str(metrics)}

    command = ["svc-metagame"]
    if not alone:
        lines = "".join(f"{name}={value}\n" for name, value in environ.items())
        (tmp_path / "metagame.env").write_text(lines)
        # its log is the log of the stack
        command, environ = ["svc-stack", "--config", str(tmp_path)], {}
    with unread(command, {**environ, **figures_on}, tmp_path) as reader:
        survives(reader, arrive(port), metrics)


# slow: thousands of long lines fill what a pipe and a writer hold
def test_a_stalled_log_reader_does_not_block_the_stop(
    tmp_path: Path,
) -> None:
    port = free_port()
    with unread(["svc-metagame"], metagame_environ(tmp_path, port), tmp_path) as reader:
        flood(arrive(port))
        reader.process.send_signal(signal.SIGTERM)
        reader.process.wait(DEADLINE_S)
