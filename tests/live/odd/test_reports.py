"""An allowlist helper that fails for a while: the gateway repeats reports without a new heartbeat.

Real processes are needed because the gateway reports over real connections, which the tests
interrupt.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.live.attacks.support import figures
from tests.live.edge_host import Server, running
from tests.support.processes import eventually, free_port

pytestmark = pytest.mark.live
FAILURES = ("cut", "silent", "busy")


class FailingHelper(BaseHTTPRequestHandler):
    """An allowlist helper that fails in each of the ways in ``FAILURES``, then works."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        reports: list[bytes] = self.server.reports  # type: ignore[attr-defined]
        reports.append(body)
        how = FAILURES[len(reports) - 1] if len(reports) <= len(FAILURES) else "done"
        if how == "silent":
            self.connection.recv(1)  # until the gateway gives up
        if how in ("cut", "silent"):
            self.close_connection = True
            return
        self.send_response(503 if how == "busy" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def failing_helper() -> Iterator[Server]:
    """Run the helper on a free port; ``reports`` holds the received bodies."""
    server: Any = Server(("127.0.0.1", 0), FailingHelper)
    server.reports = []
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_one_heartbeat_opens_the_ports_however_often_reports_fail(tmp_path: Path) -> None:
    metrics = free_port()
    with failing_helper() as helper:
        url = f"http://127.0.0.1:{helper.server_port}"
        with running(tmp_path, ALLOWLIST_URL=url, METRICS_PORT=str(metrics)) as host:
            status, _, _ = host.ask("POST", "/heartbeat", "{}", Authorization="Bearer x")
            assert status == 200
            reports: list[bytes] = helper.reports  # type: ignore[attr-defined]
            eventually(lambda: len(reports) == len(FAILURES) + 1)
            assert set(reports) == {b'{"ip":"127.0.0.1"}'}
            eventually(lambda: figures(metrics)["svc_gateway_reports_waiting"] == 0)
            shown = figures(metrics)
            count = 'svc_gateway_request_seconds_count{route="allowlist",status="%d"}'
            assert (shown[count % 200], shown[count % 502], shown[count % 503]) == (1, 2, 1)
