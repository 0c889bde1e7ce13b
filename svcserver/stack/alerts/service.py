"""The service that sends alerts to the owner, for ``svc-stack`` and ``svc-watch``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twisted.application.service import IService, MultiService
from twisted.internet.defer import Deferred
from twisted.web.client import Agent

from svcserver.kernel.every import Every
from svcserver.stack.alerts.metrics import ANSWER_S, MetricsPoller
from svcserver.stack.alerts.sending import AlertSender, requested_tests
from svcserver.stack.alerts.watching import HostWatch
from svcserver.stack.components import Component

EVERY_S = 15.0  # between two checks of the host


def alerting(
    reactor: Any,
    config: Path,
    data: Path,
    components: Sequence[Component],
    *,
    ready: Callable[[], set[str]],
    probe: Callable[[], Deferred[None]],
    poll_s: float,
    reports_crashes: bool = False,
    backs_up: bool = True,
    environment: Mapping[str, str | None],
) -> tuple[IService, HostWatch]:
    """Return the alert service, and the watch to which the caller reports crashes of components.

    ``ready`` returns the names of the components that answer requests; ``probe`` is called before
    each check, so that these names are up to date. ``poll_s`` is the interval for polling metrics,
    in seconds. Set ``reports_crashes`` if the caller reports starts and crashes; otherwise the
    poller detects them. ``backs_up`` says whether the host should have backups. ``environment`` has
    the environment variables that override ``stack.env``; secrets are replaced by None.
    """
    sender = AlertSender(reactor, config, data)
    names = tuple(component.name for component in components)
    watch = HostWatch(config, data, names, ready, sender.send, environment=environment)
    watch.backs_up = backs_up
    poller = MetricsPoller(
        reactor, Agent(reactor, connectTimeout=ANSWER_S), components, watch, poll_s
    )
    if not reports_crashes:
        poller.on_restart, poller.on_process = watch.on_crash, watch.on_start

    def check(_: None) -> None:
        watch.check()
        sender.check_quiet_hours()

    service = MultiService()
    for part in (
        sender,
        Every(
            reactor,
            EVERY_S,
            lambda: probe().addCallback(check),
            "the host's check for alerts",
            at_once=True,  # the dashboard shows the services while they start
        ),
        Every(reactor, poll_s, poller.poll, "polling the services' metrics"),
        requested_tests(reactor, sender),
    ):
        part.setServiceParent(service)
    return service, watch
