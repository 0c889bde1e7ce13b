"""The owner's figures, asked of a real metagame."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.support.processes import eventually, free_port, metagame
from tests.support.proves import proves

pytestmark = pytest.mark.live


def scrape(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@proves("METRICS_PORT of the metagame")
def test_the_event_loop_is_measured_and_shown_to_prometheus(tmp_path: Path) -> None:
    port = free_port()
    with metagame(tmp_path, BACKEND_HEALTH="1", METRICS_PORT=str(port)):
        lines = eventually(
            lambda: [
                line
                for line in scrape(port).splitlines()
                if line.startswith("svc_metagame_event_loop_p95_ms ") and not line.endswith(" 0.0")
            ]
        )
        assert float(lines[0].split()[1]) >= 10
