"""Metrics for Prometheus, on loopback only (METRICS_PORT).

A service calls ``show_figures`` once. Each ``Figure`` is read at each scrape; no history is stored.
Each of the service's ``Counters`` has one series for each reason, for example
``svc_content_refusals_total{reason="host"}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, frozen
from twisted.application.service import IService
from twisted.internet.defer import Deferred

from svcserver.kernel.counters import Counted, Counters, Figure
from svcserver.kernel.system import elapsed
from svcserver.web.front import FinishedRequest
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from svcserver.web.serving import Listening, TopService
from svcserver.web.site import HttpHandler


@frozen
class CountingRequests:
    """The observer that counts 4xx answers, and records the durations of requests.

    A 4xx answer is counted by its reason, or else by its status; a 429 also by its route.
    """

    counters: Counters

    def __call__(self, done: FinishedRequest) -> None:
        time_request = self.counters.time_request
        if time_request is not None and not done.aborted:
            time_request(done.row.name if done.row else "", done.status, done.seconds)
        if done.status < 400:
            return
        limit = done.row.name if done.row else ""
        count_refusal(self.counters, done.request, done.status, limit)


@define
class CountingHandler:
    """A handler that counts the answers of a service that has no ``FrontDoor``.

    A 429 answer is counted under the label ``limit``. The durations of requests are recorded
    separately for each entry of ``paths``, the known path prefixes.
    """

    handler: HttpHandler
    counters: Counters
    limit: str = ""
    paths: Sequence[bytes] = ()

    @property
    def max_json(self) -> int:
        return self.handler.max_json

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        began = elapsed()
        answer = self.handler.early(request, length)
        return None if answer is None else self._counted(answer, request, began)

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        began = elapsed()
        reply = self.handler.answer(request)
        if isinstance(reply, Answer):
            return self._counted(reply, request, began)
        return reply.addCallback(self._counted, request, began)

    def page(self, status: int, why: BaseException | None) -> Answer:
        return self.handler.page(status, why)

    def _counted(self, answer: Answer, request: HttpRequest, began: float) -> Answer:
        if self.counters.time_request is not None:
            known = (path for path in self.paths if request.path.startswith(path))
            route = next(known, b"").decode("ascii")
            self.counters.time_request(route, answer.status, elapsed() - began)
        count_refusal(self.counters, request, answer.status, self.limit)
        return answer


def count_refusal(counters: Counters, request: HttpRequest, status: int, limit: str) -> None:
    """Count a 4xx answer by its reason, or else by its status; count a 429 also under ``limit``."""
    if 400 <= status < 500:
        counters.add(Counted.REFUSALS, request.refused or str(status))
    if status == 429:
        counters.add(Counted.THROTTLED, limit)


def show_figures(
    top: TopService, reactor: Any, name: str, port: int | None, figures: Mapping[str, Figure]
) -> None:
    """Add the METRICS_PORT listener to ``top``; do nothing if the port is not set."""
    if port is not None:
        metrics(reactor, name, port, figures, top.counters).setServiceParent(top)


def metrics(
    reactor: Any,
    name: str,
    port: int,
    figures: Mapping[str, Figure],
    counters: Counters,
) -> IService:
    """Return the METRICS_PORT listener; add it after the service's own listener."""
    # imported late: nothing else in a service needs the library and Twisted's server
    from svcserver.web.metrics_page import MetricsCollector, MetricsPage, QuietSite

    page = MetricsPage(MetricsCollector(name, figures, counters))
    site = QuietSite(page, reactor=reactor)
    site.displayTracebacks = False
    listening: IService = Listening(
        reactor,
        f"{name}-metrics",
        port,
        "127.0.0.1",
        site,
        variables="METRICS_PORT",
        component=name,
    )
    return listening
