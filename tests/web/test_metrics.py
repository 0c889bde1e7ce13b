"""Histograms of METRICS_PORT, and the names that docs/host/grafana.json asks for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.request_times import BOUNDS_S, MOST, RequestTimes
from svcserver.web.metrics import metrics
from svcserver.web.metrics_page import Figures
from tests.support.game import Game
from tests.support.proves import proves

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "docs" / "host" / "grafana.json"
SERVICES = ("metagame", "deploy", "content", "allowlist", "gateway", "stack")


def page(name: str, counters: Counters) -> str:
    registry = CollectorRegistry()
    registry.register(Figures(name, {}, counters))
    return generate_latest(registry).decode()


class TimesTests(SynchronousTestCase):
    @proves("METRICS_PORT: a histogram by route and status")
    def test_requests_are_counted_by_route_status_and_time(self) -> None:
        game = Game(self)
        game.browse("GET", "/QoS")
        self.assertIsNone(game.parts.counters.times)  # nobody looks
        metrics(MemoryReactorClock(), "metagame", 61900, {}, game.parts.counters)
        for path in ("/QoS", "/QoS", "/no/such/route/of/a/stranger"):
            game.browse("GET", path)
        said = page("metagame", game.parts.counters)
        row = 'svc_metagame_request_seconds_%s{route="GET /QoS",status="200"} 2.0'
        self.assertIn(row % "count", said)
        self.assertIn('_bucket{le="+Inf",route="",status="404"} 1.0', said)
        self.assertNotIn("stranger", said)

    @given(st.lists(st.floats(0, 100), max_size=50))
    def test_buckets_only_grow_and_the_last_has_all(self, seconds: list[float]) -> None:
        times = RequestTimes()
        for one in seconds:
            times.note("r", 200, one)
        for series in times.series.values():
            counts = [count for _, count in series.cumulated()]
            self.assertEqual((counts, counts[-1]), (sorted(counts), len(seconds)))
            below = [sum(one <= bound for one in seconds) for bound in BOUNDS_S]
            self.assertEqual(counts[:-1], below)

    def test_the_number_of_series_is_bounded(self) -> None:
        times = RequestTimes()
        for number in range(2 * MOST):
            times.note(f"r{number}", 200, 0.1)
        self.assertEqual(len(times.series), MOST + 1)


class BoardTests(SynchronousTestCase):
    def known(self) -> set[str]:
        """Every name that some service shows."""
        code = "".join(one.read_text("utf-8") for one in (ROOT / "svcserver").rglob("*.py"))
        found = set(re.findall(r'"(svc_[a-z]+_[a-z0-9_]+)"', code))
        found |= {f"{one}_total" for one in found}  # how a counter is shown
        for name in SERVICES:
            found |= {f"svc_{name}_{kind}_total" for kind in Counted}
        for name in ("metagame", "deploy"):
            found |= {f"svc_{name}_request_seconds_{end}" for end in ("bucket", "count", "sum")}
        return found

    @proves("docs/host/grafana.json asks for figures that are there")
    def test_every_name_of_the_board_is_shown_by_a_service(self) -> None:
        board: Any = json.loads(BOARD.read_text("utf-8"))
        asked = {
            name
            for panel in board["panels"]
            for target in panel["targets"]
            for name in re.findall(r"svc_\w+", target["expr"])
        }
        self.assertGreater(len(asked), 12)
        self.assertEqual(asked - self.known(), set())
