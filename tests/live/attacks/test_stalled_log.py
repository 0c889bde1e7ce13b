"""A log that no process reads: the service keeps answering, and reports the dropped lines later.

Real processes are needed because the tests block the pipe that a process writes its log to.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import re
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from svcserver.edge.certificate import make_pair, write_pair
from tests.live.attacks.support import figures
from tests.live.edge_host import SECRET
from tests.support import prestarted
from tests.support.prestarted import Prestarted
from tests.support.processes import eventually, free_port, metagame_environ

pytestmark = pytest.mark.live
# each a line of 450 bytes: the writer holds half of them, with those of FLUSH_S before and after
REQUESTS = 6_000
PLACE = "/account/api/public/account"  # 200: a refusal's line might be left out
PIPE = 4_096  # bytes that the stalled reader's pipe holds
DEADLINE_S = 30.0
DROPPED = re.compile(rb"(\d+) log lines were dropped")


@contextmanager
def unread(command: list[str], environ: dict[str, str], folder: Path) -> Iterator[Reader]:
    """Run a service whose output is read until it is ready, then not again until it has ended."""
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


def flood(connect: Callable[[], http.client.HTTPConnection]) -> float:
    """Send many requests with long log lines; return the longest response time in seconds."""
    connection, longest = connect(), 0.0
    for number in range(REQUESTS):
        began = time.monotonic()
        path = f"{PLACE}/{number}." + "long." * 100
        connection.request("GET", path, headers={"User-Agent": "long " * 80})
        connection.getresponse().read()
        longest = max(longest, time.monotonic() - began)
    connection.close()
    return longest


def survives(
    reader: Reader, connect: Callable[[], http.client.HTTPConnection], metrics: int
) -> None:
    """Assert that every request is answered and that the final log reports dropped lines."""
    assert flood(connect) < DEADLINE_S / 2
    assert reader.process.poll() is None

    def dropped() -> float:
        shown = figures(metrics).items()
        return sum(number for name, number in shown if "dropped_log_lines_total" in name)

    eventually(lambda: dropped() > 100)  # a quick machine has answered all before the last FLUSH_S
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def connect() -> http.client.HTTPConnection:
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=DEADLINE_S, context=context)

    with unread(["svc-gateway"], environ, tmp_path) as reader:
        survives(reader, connect, metrics)


# slow: thousands of long lines fill what a pipe and a writer hold
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "under svc-stack"])
def test_a_metagame_whose_log_nobody_reads_answers_on(tmp_path: Path, alone: bool) -> None:
    port, metrics = free_port(), free_port()
    environ, figures_on = metagame_environ(tmp_path, port), {"METRICS_PORT": str(metrics)}

    def connect() -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)

    command = ["svc-metagame"]
    if not alone:
        lines = "".join(f"{name}={value}\n" for name, value in environ.items())
        (tmp_path / "metagame.env").write_text(lines)
        command, environ = ["svc-stack", "--config", str(tmp_path)], {}  # whose log is the stack's
    with unread(command, {**environ, **figures_on}, tmp_path) as reader:
        survives(reader, connect, metrics)


# slow: thousands of long lines fill what a pipe and a writer hold
def test_a_stalled_log_reader_does_not_block_the_stop(
    tmp_path: Path,
) -> None:
    port = free_port()
    with unread(["svc-metagame"], metagame_environ(tmp_path, port), tmp_path) as reader:
        flood(lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S))
        reader.process.send_signal(signal.SIGTERM)
        reader.process.wait(DEADLINE_S)
