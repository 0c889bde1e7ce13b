"""The histograms on METRICS_PORT."""

from pathlib import Path
from typing import Any

from attrs import define
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers
from twisted.web.test.requesthelper import DummyRequest

from svcserver.kernel.counters import Counted, Counters, Figure
from svcserver.web.metrics import CountingHandler
from svcserver.web.metrics_page import MetricsCollector, MetricsPage
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from tests.edge.wires import gateway
from tests.support.game import Game
from tests.support.proves import proves

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "docs" / "host" / "grafana.json"
SERVICES = ("metagame", "deploy", "content", "allowlist", "gateway", "stack")


def rendered(page: MetricsPage, accept: str = "") -> tuple[str, str]:
    """Scrape the page; return its content type and text."""
    request: Any = DummyRequest([b""])
    request.path, request.client = b"/metrics", IPv4Address("TCP", "127.0.0.1", 1)
    request.requestHeaders = Headers({"Host": ["127.0.0.1:9100"], "Accept": [accept]})
    body: bytes = page.render_GET(request)
    [kind] = request.responseHeaders.getRawHeaders("content-type")
    return kind, body.decode()


@define
class Fixed:
    """A handler that answers immediately or on demand, and whose early check always answers 413."""

    waits: Deferred[Answer] | None = None
    max_json: int = 1

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        return self.waits if self.waits is not None else Answer(200, b"")

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        return Answer(413, b"")

    def page(self, status: int, why: BaseException | None) -> Answer:
        return Answer(status, b"")


def request(path: bytes) -> HttpRequest:
    return HttpRequest("GET", path, b"", Headers(), "127.0.0.1")


class PageTests(SynchronousTestCase):
    def scraped(self, accept: str) -> tuple[str, str]:
        counters = Counters()
        counters.add(Counted.REFUSALS, "host")
        figures = {
            "svc_x_open": Figure("Now.", lambda: 1.0),
            "svc_x_starts_total": Figure("Since the start.", lambda: 2.0, counts=True),
        }
        page = MetricsPage(MetricsCollector("x", figures, counters))
        assert counters.time_request is not None
        counters.time_request("r", 200, 0.1)
        return rendered(page, accept)

    def test_metrics_are_openmetrics_if_accepted_and_text_otherwise(self) -> None:
        # what Prometheus sends
        accepted = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3"
        kind, body = self.scraped(accepted)
        self.assertTrue(kind.startswith("application/openmetrics-text; version=1.0.0"), kind)
        self.assertTrue(body.endswith("# EOF\n"))
        names = {family.name for family in openmetrics_families(body)}
        wanted = {"svc_x_open", "svc_x_starts", "svc_x_refusals", "svc_x_request_seconds"}
        self.assertLessEqual(wanted, names)
        for second in ("", "*/*", "text/html", "application/openmetrics", "a" * 5000):
            kind, body = self.scraped(second)
            self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
            self.assertNotIn("# EOF", body)
            self.assertIn('svc_x_refusals_total{reason="host"} 1.0', body)

    def test_an_odd_accept_header_is_no_error(self) -> None:
        for odd in ("application/openmetrics-text;version=x", ";;,,", "text/plain;version=9;a=b=c"):
            self.assertIn("svc_x_open 1.0", self.scraped(odd)[1])


class TimesTests(SynchronousTestCase):
    @proves("METRICS_PORT: a histogram by route and status")
    def test_requests_are_counted_by_route_status_and_time(self) -> None:
        game = Game(self)
        game.browse("GET", "/QoS")
        self.assertIsNone(game.parts.counters.time_request)  # nobody looks
        page = MetricsPage(MetricsCollector("metagame", {}, game.parts.counters))
        for path in ("/QoS", "/QoS", "/no/such/route/of/a/stranger"):
            game.browse("GET", path)
        text = rendered(page)[1]
        row = 'svc_metagame_request_seconds_%s{route="GET /QoS",status="200"} 2.0'
        self.assertIn(row % "count", text)
        self.assertIn('_bucket{le="+Inf",route="",status="404"} 1.0', text)
        self.assertNotIn("stranger", text)

    def test_a_service_without_a_router_counts_by_the_paths_it_has(self) -> None:
        counters = Counters()
        handler = CountingHandler(Fixed(), counters, paths=(b"/status", b"/files/"))
        for path in (b"/status", b"/files/secret.pak", b"/of/a/stranger"):
            handler.answer(request(path))
        self.assertIsNone(counters.time_request)  # no metrics page shows the durations
        page = MetricsPage(MetricsCollector("content", {}, counters))
        for path in (b"/status", b"/files/secret.pak", b"/of/a/stranger"):
            handler.answer(request(path))
        self.assertIsNotNone(handler.early(request(b"/files/x"), 7))
        later = Deferred[Answer]()
        handler.handler.waits = later  # type: ignore[attr-defined]
        handler.answer(request(b"/status"))
        status = 'svc_content_request_seconds_count{route="/status",status="200"} %.1f'
        self.assertIn(status % 1, rendered(page)[1])
        later.callback(Answer(200, b""))
        text = rendered(page)[1]
        self.assertIn(status % 2, text)
        for route, code in (("/files/", 200), ("", 200), ("/files/", 413)):
            self.assertIn(f'_seconds_count{{route="{route}",status="{code}"}} 1.0', text)
        self.assertNotIn("secret", text)

    def test_the_gateway_counts_by_where_it_passed_a_request_on(self) -> None:
        edge = gateway()
        times: list[tuple[str, int]] = []
        edge.policy.counters.time_request = lambda route, status, _: times.append((route, status))
        host = b"Host: localhost\r\n\r\n"
        edge.ask(b"GET /heartbeat HTTP/1.1\r\n" + host)
        edge.ask(b"GET /svc/api/x HTTP/1.1\r\n" + host)
        self.assertEqual(times, [("metagame", 200), ("gateway", 403)])
