"""The owner's health figures from a real metagame with a running event loop."""

import time
from pathlib import Path

import pytest

from svcserver.db.engine import database_url, make_engine
from svcserver.db.transaction import transact
from svcserver.metagame.owner.figures.feature import SqlFigures
from svcserver.metagame.owner.figures.rules import DAY_S
from tests.support.joined import FREE, Beside, beside_a_metagame
from tests.support.processes import ask, eventually, metagame
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


@proves("GET DashboardFigures")
def test_counts_are_written_at_the_stop_and_read_at_the_start(tmp_path: Path) -> None:
    # a process is needed because a second service uses the files of the first
    counted = []
    for requests in (3, 4):
        with metagame(tmp_path, BACKEND_HEALTH="1") as service:
            for _ in range(requests):
                assert service.ask("GET", "/nothing/of/ours")[0] == 404
        engine = make_engine(database_url(f"sqlite:///{tmp_path}/svc.db"))
        now = int(time.time()) + DAY_S
        days = transact(engine, lambda tx, now=now: SqlFigures(tx).since(DAY_S, 0, now))
        engine.dispose()
        counted.append(sum(day.span.counts.client_errors for day in days))
    assert counted == [3, 7]
