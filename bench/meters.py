"""CPU time and memory of a server process, and the figures that wrk prints."""

import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

from attrs import frozen

from bench.servers import LOAD_CORE, pinned

KIB, MIB = 1024, 1024 * 1024
LONGEST_S = 10.0  # for one answer
PAUSE = """
math.randomseed(os.time())
function delay() return math.random(0, {most}) end
"""


@frozen
class WrkRun:
    """The figures of one run of wrk against one server."""

    requests: int
    seconds: float
    megabytes: float
    p99_ms: float
    refused: int  # answers that were neither 2xx nor 3xx
    failed: int  # sockets that failed
    cpu_s: float = 0.0  # of the server, meanwhile

    @property
    def per_second(self) -> float:
        """Return the requests per wall-clock second."""
        return self.requests / self.seconds

    @property
    def per_cpu(self) -> float:
        """Return the requests per CPU second of the server."""
        return self.requests / max(self.cpu_s, 0.01)

    @property
    def megabytes_per_cpu(self) -> float:
        """Return the megabytes per CPU second of the server."""
        return self.megabytes / max(self.cpu_s, 0.01)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Return the resident bytes of the process, without file-backed memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * KIB
    raise SystemExit(f"the memory use of process {pid} cannot be read")


def wrk(
    pid: int, url: str, connections: int, seconds: float, *headers: str, script: Path | None = None
) -> WrkRun:
    """Load ``url`` in a closed loop, and return the figures with the CPU time of ``pid``."""
    whole = max(1, round(seconds))
    command = ["wrk", "-t1", f"-c{connections}", f"-d{whole}s", "--timeout", "30s", "--latency"]
    for header in headers:
        command += ["-H", header]
    if script is not None:
        command += ["-s", str(script)]
    before = cpu_s(pid)
    output = subprocess.run(
        pinned(LOAD_CORE, [*command, url]),
        check=True,
        capture_output=True,
        text=True,
        timeout=whole + 60,
    ).stdout
    return _parsed(output, cpu_s(pid) - before)


_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


def _parsed(output: str, cpu: float) -> WrkRun:
    total = re.search(r"(\d+) requests in ([\d.]+)(m?s), ([\d.]+)([KMG]?)B read", output)
    slow = re.search(r"99%\s+([\d.]+)(us|ms|s|m)\b", output)
    if total is None or slow is None:
        raise SystemExit(f"the output of wrk cannot be parsed:\n{output}")
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    failed = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    return WrkRun(
        int(total[1]),
        float(total[2]) * _UNITS[total[3]] / 1e3,
        float(total[4]) * _UNITS[total[5]] / 1e6,
        float(slow[1]) * _UNITS[slow[2]],
        int(refused[1]) if refused else 0,
        sum(map(int, failed.groups())) if failed else 0,
        cpu,
    )


def half_load(pid: int, url: str, full: float, seconds: float, folder: Path) -> WrkRun:
    """Send requests at random moments, about ``full`` / 2 requests per second."""
    connections = 20  # the TLS handshakes at the start are load, too
    script = folder / "pause.lua"
    script.write_text(PAUSE.format(most=max(1, round(2000 * connections / (full / 2)))))
    return wrk(pid, url, connections, seconds, script=script)


def client_context() -> ssl.SSLContext:
    """Return a client's TLS context that accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connect(port: int, tls: bool) -> socket.socket:
    """Return a client connection that accepts any certificate."""
    raw = socket.create_connection(("127.0.0.1", port), LONGEST_S)
    return client_context().wrap_socket(raw) if tls else raw


def resumed(pid: int, port: int, path: str, seconds: float) -> WrkRun:
    """Resume one TLS session for each request.

    A request whose session was not resumed counts as refused. Only one connection is open at a
    time. So the servers are not saturated, and only their CPU time per request can be compared.
    """
    context, session = client_context(), None
    ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    requests, refused, before, began = 0, 0, cpu_s(pid), time.monotonic()
    while time.monotonic() < began + seconds:
        raw = socket.create_connection(("127.0.0.1", port), LONGEST_S)
        with context.wrap_socket(raw, session=session) as client:
            client.sendall(ask)
            good = client.recv(64 * KIB).startswith(b"HTTP/1.1 200") and client.session_reused
            while client.recv(64 * KIB):
                pass
            refused += session is not None and not good
            requests, session = requests + 1, client.session
    took = time.monotonic() - began
    return WrkRun(requests, took, 0.0, 0.0, refused, 0, cpu_s(pid) - before)


def _ask(port: int, path: str, tls: bool, headers: str) -> socket.socket:
    client = connect(port, tls)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
    if not client.recv(64 * KIB).startswith(b"HTTP/1.1 20"):
        raise SystemExit(f"{path} was not answered with 200")
    return client


def growth(
    pid: int, port: int, path: str, warm: str, clients: int, headers: str = "", tls: bool = False
) -> float:
    """Return by how many bytes the server grows for each client that stops reading its answer.

    The server must be freshly started: a server keeps the memory of an earlier load, which hides
    the growth.
    """
    held = [_ask(port, warm, tls, headers)]  # the first request triggers one-time loading
    before = memory(pid)
    try:
        held += [_ask(port, path, tls, headers) for _ in range(clients)]
        return _highest(lambda: memory(pid), 3.0, before) / clients
    finally:
        for client in held:
            client.close()


def _highest(meter: Callable[[], int], seconds: float, before: int) -> int:
    most, end, pause = 0, time.monotonic() + seconds, Event()
    while time.monotonic() < end:
        most = max(most, meter() - before)
        pause.wait(0.1)
    return most
