"""A small host in real processes: relay -> gateway -> a tiny upstream."""

import hashlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from svcserver.edge.certificate import Pair, make_pair, write_pair
from tests.support import prestarted
from tests.support.prestarted import Prestarted
from tests.support.processes import PATIENCE_S, free_port

SECRET = "live-secret-live-secret-live-secret"
DEADLINE_S = START_S = PATIENCE_S
ROOT = Path(__file__).resolve().parents[2]


class Tiny(BaseHTTPRequestHandler):
    """A tiny upstream: it replies with the request it received, and with 64 MB on ``/big``.

    It sends the bytes of an upgraded connection back in capitals.
    """

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        if self.headers.get("Upgrade"):
            self.echo()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/big":
            self.send_response(200)
            self.send_header("Content-Length", str(64 << 20))
            self.end_headers()
            for _ in range(1024):
                self.wfile.write(b"x" * 65536)
            return
        reply = {"method": self.command, "path": self.path, "headers": self.headers.items()}
        deliveries: list[Any] = self.server.received  # type: ignore[attr-defined]
        deliveries.append({**reply, "body": body.decode()})
        out = orjson.dumps(deliveries[-1])
        self.send_response(200)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(out)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_PATCH = do_OPTIONS = answer

    def echo(self) -> None:
        self.wfile.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        self.wfile.flush()
        while data := self.connection.recv(4096):
            self.connection.sendall(data.upper())
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Ignore errors of clients that disconnect."""


@define(eq=False)
class Host:
    """The addresses of a small host, and methods that send requests to it."""

    gateway_port: int
    relay_port: int
    pair: Pair
    received: list[Any]
    gateway: Any = None
    relay: Any = None
    logs: list[Path] = field(factory=list)

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Any:
        """Send a request through the relay; return the status, headers and body."""
        connection = HTTPConnection("127.0.0.1", self.relay_port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            connection.close()

    def secure(self, **how: Any) -> ssl.SSLSocket:
        """Open a TLS connection directly to the gateway."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for name, value in how.pop("context", {}).items():
            setattr(context, name, value)
        if alpn := how.pop("alpn", None):
            context.set_alpn_protocols(alpn)
        raw = socket.create_connection(("127.0.0.1", self.gateway_port), DEADLINE_S)
        try:
            return context.wrap_socket(raw, **how)
        except BaseException:
            raw.close()
            raise


PASSED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="https")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def start(
    command: str,
    environ: dict[str, str],
    log: Path,
    listener: str = "",
    before: Sequence[str] = (),
) -> Prestarted | subprocess.Popen[bytes]:
    """Start a twistd command that writes its output to ``log``.

    ``listener`` is the number of a listening socket's descriptor, which the service inherits, as
    from systemd. ``before`` is a prefix of the command line, such as ``setpriv`` with its options.
    """
    environ = {"PATH": os.environ["PATH"], "HOME": "/tmp", **environ}
    if not before and not listener:
        with log.open("wb") as out:
            words = ["--nodaemon", "--pidfile=", command]
            return prestarted.start(words, environ, ROOT, out.fileno())
    twistd = str(Path(sys.executable).parent / "twistd")
    line = [*before, twistd, "--nodaemon", "--pidfile=", command]
    if listener:
        line = [sys.executable, "-c", PASSED, listener, *line]
    with log.open("wb") as out:
        return subprocess.Popen(
            line,
            env=environ,
            pass_fds=(int(listener),) if listener else (),
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def await_ready(process: Prestarted | subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the ready line; fail if the process ends first."""
    deadline = time.monotonic() + START_S
    while b"ready" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        threading.Event().wait(0.05)


def _gateway(host: Host, certificate: Path, key: Path, url: str) -> dict[str, str]:
    """Return the settings of a gateway that has ``url`` as each of its upstreams."""
    return {
        "GATEWAY_BIND": "127.0.0.1",
        "GATEWAY_PORT": str(host.gateway_port),
        "GATEWAY_CERT": str(certificate),
        "GATEWAY_KEY": str(key),
        "GATEWAY_SECRET": SECRET,
        "GATEWAY_METAGAME_URL": url,
        "GATEWAY_CONTENT_URL": url,
        "GATEWAY_WS_URL": url,
        "GATEWAY_ALLOWLIST": "1",
        "ALLOWLIST_URL": url,
        "ALLOWLIST_SECRET": SECRET,
    }


@contextmanager
def running(
    folder: Path,
    pin: str = "",
    listener: str = "",
    before: Sequence[str] = (),
    port: int = 0,
    **more: str,
) -> Iterator[Host]:
    """Run the host, with the gateway on ``port`` or on a free port, and stop it afterwards."""
    certificate, key = write_pair(pair := make_pair(["127.0.0.1"]), folder)
    if before:  # so that the user who runs the gateway can read the key
        key.chmod(0o644)
    tiny = Server(("127.0.0.1", 0), Tiny)
    tiny.received = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=tiny.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    host = Host(port or free_port(), free_port(), pair, tiny.received)  # type: ignore[attr-defined]
    environ = _gateway(host, certificate, key, f"http://127.0.0.1:{tiny.server_port}") | more
    relaying = {
        "SVC_RELAY_PORT": str(host.relay_port),
        "SVC_RELAY_HOST": "127.0.0.1",
        "SVC_RELAY_GATEWAY_PORT": str(host.gateway_port),
        "SVC_RELAY_FINGERPRINT": pin or pair.fingerprint,
    }
    host.logs = [folder / "gateway.log", folder / "relay.log"]
    host.gateway = start("svc-gateway", environ, host.logs[0], listener, before)
    host.relay = start("svc-relay", relaying, host.logs[1])
    try:
        await_ready(host.gateway, host.logs[0])
        await_ready(host.relay, host.logs[1])
        yield host
    finally:
        for process in (host.relay, host.gateway):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(DEADLINE_S)
        tiny.shutdown()
        tiny.server_close()
        thread.join(DEADLINE_S)


def memory_of(process: Prestarted | subprocess.Popen[bytes]) -> int:
    """Return the resident memory of a process in bytes."""
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def fingerprint_of(connection: ssl.SSLSocket) -> str:
    """Return the fingerprint of the certificate that the peer presented."""
    return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()
