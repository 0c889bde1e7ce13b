"""The health figures and their route."""

import math
from typing import Any

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.health.feature import (
    Counting,
    HealthRoutes,
    loop_watch,
    show_loop,
    show_requests,
)
from svcserver.metagame.owner.health.rules import (
    BEYOND,
    BOUNDS_MS,
    SAMPLE_S,
    LoopDelays,
    Requests,
    upper_bound,
)
from svcserver.metagame.owner.memory import memory_mb
from svcserver.metagame.rows import NOBODY
from svcserver.web.front import FinishedRequest
from svcserver.web.request import HttpRequest
from tests.support.game import Game
from tests.support.proves import proves

PATH = "/svc/api/BackendHealth"
requests = st.lists(st.tuples(st.integers(200, 599), st.floats(0, 20)), max_size=30)


class RequestsTests(SynchronousTestCase):
    @proves("GET /svc/api/BackendHealth")
    def test_the_report_sums_requests_errors_and_latencies(self) -> None:
        requests = Requests()
        for status, seconds in ((200, 0.04), (404, 0.002), (500, 6.0)):
            requests.note(status, seconds, 100.5)
        requests.note_aborted(101.0)
        self.assertEqual(
            show_requests(requests.last_minute(102.0)),
            {
                "windowSeconds": 60,
                "completed": 3,
                "clientErrors": 1,
                "serverErrors": 1,
                "aborted": 1,
                "requestsPerSecond": 0.05,
                "serverErrorPercent": 33.3,
                "latencyP50UpperMs": 50,
                "latencyP95UpperMs": ">5000",
            },
        )

    @proves("GET /svc/api/BackendHealth")
    def test_one_slow_request_of_twenty_is_above_the_p95(self) -> None:
        requests = Requests()
        for seconds in (*[0.004] * 19, 6.0):
            requests.note(200, seconds, 100.5)
        reply = show_requests(requests.last_minute(102.0))
        self.assertEqual((reply["latencyP95UpperMs"], reply["requestsPerSecond"]), (5, 0.333))

    @proves("GET /svc/api/BackendHealth")
    def test_a_second_is_dropped_after_sixty(self) -> None:
        requests = Requests()
        requests.note(200, 0.001, 100.9)
        requests.note(200, 0.001, 101.0)
        self.assertEqual(requests.last_minute(159.99).completed, 2)
        self.assertEqual(requests.last_minute(160.0).completed, 1)
        self.assertEqual(requests.last_minute(161.0).completed, 0)
        self.assertEqual(requests.since_start.completed, 2)

    def test_counts_since_the_start_include_boundary_statuses(self) -> None:
        requests = Requests()
        for status in (399, 400, 499, 500, 599):
            requests.note(status, 0.001, 100.0)
        requests.note_aborted(100.0)
        whole = requests.since_start
        self.assertEqual((whole.completed, whole.client_errors, whole.server_errors), (5, 2, 2))
        self.assertEqual((whole.aborted, whole.latencies[0], sum(whole.latencies)), (1, 5, 5))
        self.assertEqual(BOUNDS_MS, (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000))

    def test_old_seconds_cost_no_memory(self) -> None:
        requests = Requests()
        for second in range(1000):
            requests.note(200, 0.001, float(second))
        self.assertEqual(len(requests._buckets), 60)

    def test_delays_are_shown_to_a_tenth_of_a_millisecond(self) -> None:
        delays = LoopDelays()
        delays.note(0.02345)
        self.assertEqual(show_loop(delays.report()), {"p50Ms": 23.4, "p95Ms": 23.4, "maxMs": 23.4})
        delays.note(0.0101), delays.note(0.0402)
        self.assertEqual(show_loop(delays.report()), {"p50Ms": 23.4, "p95Ms": 40.2, "maxMs": 40.2})

    @proves("GET /svc/api/BackendHealth")
    def test_without_requests_percentiles_are_null_and_rates_zero(self) -> None:
        reply = show_requests(Requests().last_minute(5.0))
        self.assertIsNone(reply["latencyP50UpperMs"])
        self.assertIsNone(reply["latencyP95UpperMs"])
        self.assertEqual((reply["requestsPerSecond"], reply["serverErrorPercent"]), (0, 0))

    def test_a_clock_set_back_leaves_no_count_behind(self) -> None:
        requests = Requests()
        requests.note(200, 0.001, 5000.0)
        requests.note(200, 0.001, 1000.0)
        self.assertEqual(requests.last_minute(1000.0).completed, 1)

    @given(requests, st.sampled_from([0.5, 0.95]))
    @effort(max_examples=50, deadline=None)
    def test_a_percentile_is_the_bound_over_the_value_of_that_rank(
        self, sent: list[tuple[int, float]], share: float
    ) -> None:
        counted = Requests()
        for status, seconds in sent:
            counted.note(status, seconds, 7.0)
        percentile = upper_bound(counted.since_start.latencies, share)
        if not sent:
            self.assertIsNone(percentile)
            return
        percent = round(share * 100)
        there = sorted(s * 1000 for _, s in sent)[math.ceil(len(sent) * percent / 100) - 1]
        self.assertEqual(percentile, next((bound for bound in BOUNDS_MS if there <= bound), BEYOND))

    @given(st.lists(st.floats(0, 1e6), max_size=60))
    @effort(max_examples=50, deadline=None)
    def test_requests_fill_at_most_sixty_buckets(self, moments: list[float]) -> None:
        requests = Requests()
        for at in moments:
            requests.note(200, 0.0, at)
            self.assertLessEqual(len(requests._buckets), 60)


class LoopTests(SynchronousTestCase):
    def test_the_event_loop_delay_is_null_before_the_first_sample(self) -> None:
        self.assertIsNone(LoopDelays().report())

    @proves("GET /svc/api/BackendHealth")
    def test_ticks_are_measured_on_the_clock_until_the_service_stops(self) -> None:
        clock, delays = Clock(), LoopDelays()
        watch = loop_watch(clock, delays)
        watch.startService()
        clock.pump([SAMPLE_S] * 19)
        clock.advance(0.25)  # something blocked the reactor
        self.assertEqual(show_loop(delays.report()), {"p50Ms": 20.0, "p95Ms": 20.0, "maxMs": 250.0})
        watch.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_event_loop_delays_are_kept_for_a_minute(self) -> None:
        delays = LoopDelays()
        for seconds in (9.0, *[0.02] * 3000):
            delays.note(seconds)
        figures = show_loop(delays.report())
        assert figures is not None
        self.assertEqual(figures["maxMs"], 20.0)


class CountingTests(SynchronousTestCase):
    def done(self, **also: Any) -> FinishedRequest:
        request = HttpRequest("GET", b"/x", b"", None, "127.0.0.1")
        return FinishedRequest(
            request, also.pop("row", None), NOBODY, also.pop("status", 200), 0.01, **also
        )

    @proves("GET /svc/api/BackendHealth")
    def test_an_aborted_reply_counts_only_as_aborted(self) -> None:
        requests = Requests()
        Counting(requests, lambda: 9.0)(self.done(status=0, aborted=True))
        reply = show_requests(requests.last_minute(9.0))
        self.assertEqual((reply["aborted"], reply["completed"], reply["serverErrors"]), (1, 0, 0))

    def test_rows_marked_quiet_are_not_counted(self) -> None:
        requests = Requests()
        [row] = HealthRoutes.routes.rows
        Counting(requests, lambda: 9.0)(self.done(row=row))
        self.assertEqual(requests.last_minute(9.0).completed, 0)


class RouteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, BACKEND_HEALTH="1")
        self.key = self.game.player("Olga", admin=True).key

    def ask(self, **how: Any) -> Any:
        return self.game.browse("GET", PATH, key=self.key, **how)

    @proves("GET /svc/api/BackendHealth")
    def test_the_health_route_is_404_without_its_switch(self) -> None:
        plain = Game(self)
        for key in (None, "UUK_" + "0" * 48, plain.player("Ann_1", admin=True).key):
            page = plain.browse("GET", PATH, key=key)
            self.assertEqual((page.status, page.body), (404, b""))

    @proves("GET /svc/api/BackendHealth")
    def test_the_health_reply_has_every_documented_member(self) -> None:
        self.game.browse("GET", "/svc/api/PublicOnlineStats")  # 401
        self.game.clock.advance(30)
        page = self.ask()
        self.assertEqual((page.status, page.headers["cache-control"]), (200, "no-store"))
        reply = page.json
        self.assertEqual(
            list(reply), ["uptimeSeconds", "memoryMB", "requests", "eventLoop", "bans"]
        )
        self.assertEqual(reply["uptimeSeconds"], 30)
        self.assertEqual(set(reply["memoryMB"]), {"rss", "heapUsed"})
        self.assertIsNone(reply["eventLoop"])
        self.assertEqual(reply["bans"], {"supported": False, "count": None})
        self.assertEqual(
            (reply["requests"]["completed"], reply["requests"]["clientErrors"]), (1, 1)
        )

    @proves("GET /svc/api/BackendHealth")
    def test_the_polls_of_a_dashboard_are_not_counted(self) -> None:
        for name in ("ServerStatus", "GetAllUsers", "DashboardAccounts", "BackendHealth"):
            self.game.browse("GET", f"/svc/api/{name}", key=self.key)
        self.assertEqual(self.ask().json["requests"]["completed"], 0)

    @proves("GET /svc/api/BackendHealth")
    def test_the_health_route_refuses_players_and_proxied_requests(self) -> None:
        player = self.game.player("Ann_1")
        self.assertEqual(self.game.browse("GET", PATH).status, 401)
        self.assertEqual(self.game.browse("GET", PATH, key="UUK_nobody").status, 401)
        self.assertEqual(self.game.browse("GET", PATH, key=player.key).status, 403)
        page = self.ask(headers={"X-Forwarded-For": "203.0.113.9"})
        self.assertEqual((page.status, page.body), (403, b""))

    @proves("limit: BackendHealth: 120 calls per minute per address")
    def test_a_hundred_and_twenty_reads_a_minute_shared_with_the_accounts(self) -> None:
        accounts = "/svc/api/DashboardAccounts"
        for _ in range(60):
            self.assertEqual(self.ask().status, 200)
            self.assertEqual(self.game.browse("GET", accounts, key=self.key).status, 200)
        self.game.clock.advance(20)
        for path in (PATH, accounts):
            page = self.game.browse("GET", path, key=self.key)
            self.assertEqual((page.status, page.body), (429, b""))
            self.assertEqual(page.headers["retry-after"], "40")
        self.game.clock.advance(40)
        self.assertEqual(self.ask().status, 200)

    def test_the_memory_figures_are_in_megabytes(self) -> None:
        memory = memory_mb()
        self.assertTrue(all(value is None or 1 < value < 10_000 for value in memory.values()))
