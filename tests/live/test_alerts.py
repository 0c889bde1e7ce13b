"""Webhooks of a running host; the receiver of one webhook never answers.

Real processes are needed because child processes die and alert receivers hang.
"""

import hmac
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from svcserver.stack.alerts.delivering import DELIVERY_S
from svcserver.stack.alerts.watching import LOOPS
from tests.ctl.command import svcctl
from tests.ctl.hosts import demo_host, read_output, run, stack, value
from tests.live.test_stack import pid_of
from tests.support.processes import PATIENCE_S, eventually
from tests.support.proves import proves
from tests.support.watch import Watch

pytestmark = pytest.mark.live


class WebhookReceiver(BaseHTTPRequestHandler):
    """A webhook receiver that stores the requests it receives."""

    deliveries: list[tuple[dict[str, str], bytes]]

    def do_GET(self) -> None:
        self.do_POST()  # a client that follows a redirect sends GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.deliveries.append((dict(self.headers.items()), body))
        status, moved_to = self.server.answers  # type: ignore[attr-defined]
        self.send_response(status)
        if moved_to:
            self.send_header("Location", moved_to)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def receiver(
    status: int = 204, moved_to: str = ""
) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    stored: list[tuple[dict[str, str], bytes]] = []
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Here", (WebhookReceiver,), {"deliveries": stored})
    )
    server.answers = status, moved_to  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", stored
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hanging() -> Iterator[str]:
    """Run a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"


def add(folder: Path, name: str, url: str, *more: str) -> None:
    words = [word for line in ("PRIVATE=1", *more) for word in ("--set", line)]
    ran = svcctl("alerts", "add", name, "--form", "json", "--url", url, *words, "--config", folder)
    assert ran.status == 0, ran.err


# slow: 60 s: a stack of five processes, one of which is killed again and again
@proves("alerts: a receiver that hangs holds nobody up", "svcctl alerts")
def test_a_hanging_receiver_delays_no_other(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with receiver() as (url, stored), hanging() as silent:
        add(folder, "good", url)
        add(folder, "silent", silent)
        secret = value(folder, "alert-good", "SIGNING_SECRET")
        ran = svcctl("alerts", "list", "--config", folder)
        assert ran.status == 0 and url not in ran.out + ran.err and secret not in ran.out
        with stack(folder) as process:
            eventually(lambda: "stack ready: " in read_output(folder))
            for number in range(1, LOOPS + 1):
                pid = eventually(lambda: pid_of(folder, "allowlist"))
                os.kill(pid, signal.SIGKILL)
                eventually(
                    lambda number=number: read_output(folder).count("allowlist ended ") >= number
                )
            headers, body = eventually(lambda: stored and stored[0])
            deliveries = json.loads(body)
            assert (deliveries["what"], deliveries["subject"]) == ("loop", "allowlist")
            stamp, _, signed = headers["X-Svc-Signature"].removeprefix("t=").partition(",v1=")
            wanted = hmac.new(secret.encode(), f"{stamp}.".encode() + body, "sha256")
            assert hmac.compare_digest(wanted.hexdigest(), signed)
            eventually(lambda: "alert not delivered to silent: the receiver does not answer"
                       in read_output(folder))  # fmt: skip
            with Watch() as watch:
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_S) == -signal.SIGTERM
            assert watch.seconds < DELIVERY_S
        assert url not in read_output(folder) and silent not in read_output(folder)


@proves("svcctl alerts", "alerts: to the address that was checked, and no redirect is followed")
def test_the_test_command_says_whether_it_arrives(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with receiver() as (url, stored):
        add(folder, "good", url)
        ran = run("alerts", "test", "good", "--config", folder, "--json")
        assert ran.returncode == 0 and json.loads(ran.stdout)["delivered"], ran.stderr
        assert json.loads(stored[0][1])["what"] == "test"
        public = folder / "alert-good.env"
        public.write_text(public.read_text().replace("PRIVATE=1", ""))
        assert "PRIVATE=1" in run("alerts", "test", "good", "--config", folder).stderr
        assert len(stored) == 1
    with receiver() as (inside, stolen), receiver(302, inside) as (url, stored):
        add(folder, "moved", url)
        ran = run("alerts", "test", "moved", "--config", folder)
        assert ran.stderr == "svcctl: moved: the receiver answered 302\n"
        assert (len(stored), stolen) == (1, [])  # no redirect to another address is followed
    with receiver(status=500) as (url, _):
        add(folder, "bad", url)
        ran = run("alerts", "test", "bad", "--config", folder)
        assert ran.stderr == "svcctl: bad: the receiver answered 500\n"
    assert svcctl("alerts", "test", "../metagame", "--config", folder).status == 1
    again = ("alerts", "add", "bad", "--form", "json", "--url", "https://x", "--config", folder)
    assert "already" in svcctl(*again).line
