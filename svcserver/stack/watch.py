"""``svc-watch``: sends alerts for a host whose services run without ``svc-stack``.

Under systemd, each service has its own unit, and so has ``svc-watch``.
"""

import os
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger

from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.stack.alerts.service import alerting
from svcserver.stack.probes import Probes
from svcserver.stack.service import HostOptions, StackSettings, overridden
from svcserver.web.serving import TopService, top_service

log = Logger()


class Options(HostOptions):
    """The command-line options of ``svc-watch``."""

    name, keep_rights = "svc-watch", False
    beside_stack = "svc-stack runs this host and sends its alerts"
    longdesc = (
        "Sends alerts for a host whose services run as systemd units. "
        'See svcctl alerts --help and the page "Alerts".'
    )


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the service that sends alerts for a host without ``svc-stack``."""
    if reactor is None:
        reactor = monotonic_reactor()
    top = top_service(reactor, production=True, service="watch")
    config = Path(options["config"]).absolute()
    probes = Probes(reactor, options.components)
    service, _ = alerting(
        reactor,
        config,
        options.settings.data_dir or config,
        options.components,
        ready=lambda: probes.answering,
        probe=probes.probe_all,
        poll_s=options.settings.alerts_every_s,
        backs_up=options.backups.at is not None,
        environment=overridden(os.environ, StackSettings),  # svc-backup has its own environment
    )
    service.setServiceParent(top)
    Ready([component.name for component in options.components]).setServiceParent(top)
    return top


class Ready(Service):
    """A service that logs one line when the start is complete and the checks are running."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def startService(self) -> None:
        super().startService()
        log.info("watch ready: {names}", names=", ".join(self.names))
