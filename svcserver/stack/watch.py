"""``svc-watch``: tells the owner when something is wrong where no ``svc-stack`` does.

Under systemd each service has a unit of its own, and this has one beside them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger
from twisted.python import usage

from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.kernel.settings import BadSetting, load, with_env_file
from svcserver.kernel.umask import let_nobody_else_write
from svcserver.stack import rolling
from svcserver.stack.alerts.service import Watched, alerting
from svcserver.stack.backups import BackupSettings
from svcserver.stack.components import BadHost, Component, components
from svcserver.stack.doors import Doors
from svcserver.stack.service import Settings
from svcserver.stack.workers import WORKER_FILE
from svcserver.web.options import start_as_owner
from svcserver.web.serving import TopService, top_service

log = Logger()
NAME = "svc-watch"


class Options(usage.Options):
    """The command line: the host's folder."""

    settings: Settings
    components: list[Component]
    backs_up: bool
    optParameters = [  # noqa: RUF012 - usage.Options wants it so
        ["config", "c", ".", "Folder with metagame.env, deploy.env and so on (svcctl init)."]
    ]
    longdesc = (
        "Alerts of a host whose services have units of their own. "
        'See svcctl alerts --help and the page "Alerts".'
    )

    def postOptions(self) -> None:
        let_nobody_else_write()
        try:
            config = Path(self["config"])
            start_as_owner(self, NAME, config, keep_rights=False)
            own = config / WORKER_FILE
            environ = with_env_file(str(own) if own.is_file() else None, os.environ)
            self.settings = load(Settings, environ)[0]
            self.backs_up = load(BackupSettings, environ)[0].at is not None
            self.components = components(config)
        except BadHost as why:
            raise failed_start(f"{NAME}: --config {why}") from None
        except BadSetting as why:
            raise failed_start(f"{NAME}: {why}") from None
        if rolling.read(config) is not None:
            raise failed_start(f"{NAME}: a svc-stack runs this host, and sends its alerts itself")


def makeService(options: Options, reactor: Any = None) -> TopService:
    """What ``twistd svc-watch`` runs: the alerts of ``svc-stack`` where there is none."""
    if reactor is None:
        reactor = monotonic_reactor()
    top = top_service(reactor, production=True, service="watch")
    config = Path(options["config"]).absolute()
    doors = Doors(reactor, options.components)
    host = Watched(
        config,
        options.settings.data_dir or config,
        options.components,
        lambda: doors.open,
        options.settings.alerts_every_s,
        doors.look,
        backs_up=options.backs_up,
    )
    watching, _ = alerting(reactor, host)
    watching.setServiceParent(top)
    Ready([one.name for one in options.components]).setServiceParent(top)
    return top


class Ready(Service):
    """Logs the line by which a start is known to be over, once the watches run."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def startService(self) -> None:
        super().startService()
        log.info("watch ready: {names}", names=", ".join(self.names))
