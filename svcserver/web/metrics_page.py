"""The page that Prometheus scrapes; this module is imported only if METRICS_PORT is set."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from twisted.web.resource import Resource
from twisted.web.server import Site

from svcserver.kernel.counters import MEANINGS, Counters, Figure
from svcserver.web.request import HttpRequest

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OPENMETRICS = "application/openmetrics-text"


@define(eq=False, slots=False)
class MetricsCollector(Collector):
    """The Prometheus collector that exports a service's figures and counters."""

    name: str
    figures: Mapping[str, Figure]
    counters: Counters

    def collect(self) -> Iterable[Metric]:
        for name, figure in self.figures.items():
            kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
            yield kind(name, figure.meaning, value=figure.read())
        for counted, meaning in MEANINGS.items():
            family = CounterMetricFamily(f"svc_{self.name}_{counted}", meaning, labels=["reason"])
            for reason, count in self.counters.by_reason(counted).items():
                family.add_metric([reason], count)
            yield family


class MetricsPage(Resource):
    """The resource that answers ``GET /metrics`` for a scraper such as Prometheus."""

    isLeaf = True

    def __init__(self, figures: MetricsCollector) -> None:
        super().__init__()
        self._registry = CollectorRegistry()
        self._registry.register(figures)
        ProcessCollector(registry=self._registry)
        times = Histogram(
            f"svc_{figures.name}_request_seconds",
            "How long requests took, by route and status.",
            ["route", "status"],
            buckets=BOUNDS_S,
            registry=self._registry,
        )
        figures.counters.time_request = lambda route, status, seconds: times.labels(
            route, str(status)
        ).observe(seconds)

    def render_GET(self, request: Any) -> bytes:
        if _foreign(request):
            request.setResponseCode(403)
            return b""
        if request.path != b"/metrics":
            request.setResponseCode(404)
            return b""
        encode, content_type = choose_encoder(_accepted(request.getHeader("accept") or ""))
        request.setHeader("content-type", content_type)
        return encode(self._registry)


def _accepted(accept: str) -> str:
    """Return the OpenMetrics type if the client accepts it, else "" for the older text format.

    Versions in ``accept`` are ignored: prometheus_client fails if one is not a number.
    """
    kinds = (kind.partition(";")[0].strip().lower() for kind in accept.split(","))
    return OPENMETRICS if OPENMETRICS in kinds else ""


def _foreign(request: Any) -> str:
    peer = request.getClientAddress().host
    return HttpRequest("GET", request.path, b"", request.requestHeaders, peer).foreign()


class QuietSite(Site):
    """A Site that writes no access log line for a scrape."""

    noisy = False

    def log(self, request: Any) -> None: ...
