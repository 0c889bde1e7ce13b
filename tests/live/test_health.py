"""The owner's figures, asked of a real metagame with a running event loop, in this process."""

from __future__ import annotations

import pytest

from tests.support.joined import FREE, Beside, beside_a_metagame
from tests.support.processes import ask, eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live


@proves("METRICS_PORT of the metagame")
@beside_a_metagame(BACKEND_HEALTH="1", METRICS_PORT=FREE)
def test_the_event_loop_is_measured_and_shown_to_prometheus(service: Beside) -> None:
    lines = eventually(
        lambda: [
            line
            for line in ask(service.port("METRICS_PORT"), "GET", "/metrics")[1]
            .decode()
            .splitlines()
            if line.startswith("svc_metagame_event_loop_p95_ms ") and not line.endswith(" 0.0")
        ]
    )
    assert float(lines[0].split()[1]) >= 10
