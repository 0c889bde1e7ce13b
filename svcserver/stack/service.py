"""``svc-stack``: runs all services of a host, one process each."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import IService
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python import usage

from svcserver.kernel import stack_wish
from svcserver.kernel.counters import Figure
from svcserver.kernel.every import Every
from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.kernel.recent import RECENT, Bounded, Recent
from svcserver.kernel.settings import BadSetting, env, folder, load, whole, with_env_file
from svcserver.kernel.settings import port as port_number
from svcserver.kernel.system import epoch
from svcserver.kernel.umask import let_nobody_else_write
from svcserver.stack import rolling
from svcserver.stack.alerts.service import Watched, alerting
from svcserver.stack.backups import BackupSettings, Nightly
from svcserver.stack.children import Children
from svcserver.stack.components import (
    SCRATCH,
    BadHost,
    Component,
    components,
    dashboard,
    environment,
)
from svcserver.stack.doors import Doors
from svcserver.stack.printing import Printer
from svcserver.stack.rolling import Rolling
from svcserver.stack.workers import WORKER_FILE, read, spread, workers
from svcserver.web.metrics import show_figures
from svcserver.web.options import start_as_owner
from svcserver.web.serving import TopService, top_service

log = Logger()


@define(eq=False)
class Frozen:
    """Knocks at every component; ``ready`` names those that said so and answer."""

    reactor: Any
    children: Children
    doors: Doors
    frozen_s: float  # so long it has answered nothing: several knocks
    _since: dict[str, float] = field(factory=dict, init=False)

    def ready(self) -> set[str]:
        """The components that serve."""
        known = {one.name for one in self.doors.components}
        return {one for one in self.children.ready if one in self.doors.open or one not in known}

    def look(self) -> Deferred[None]:
        """Knock at all of them, and end who has been silent for too long."""
        return self.doors.look().addCallback(self._looked)

    def _looked(self, _: None) -> None:
        now, serving = self.reactor.seconds(), self.ready()
        silent = self.children.ready - serving
        self._since = {one: self._since.get(one, now) for one in silent}
        for name, since in sorted(self._since.items()):
            if now - since >= self.frozen_s:
                log.error(
                    "{name} lives, but has answered nothing for {silent:.0f} s: it is killed",
                    name=name,
                    silent=now - since,
                )
                del self._since[name]
                self.children.kill(name)


EVERY_S = 2.0


def wishes(reactor: Any, folder: Path, again: Callable[[], object]) -> IService:
    """The service that looks for wishes in ``folder``; ``again`` lets the end be a beginning."""

    def look() -> None:
        wished = stack_wish.take(folder, epoch())
        if wished is None:
            return
        log.info("the server is empty and the stack is to {wish}: it stops", wish=wished)
        if wished == "restart":
            again()
        reactor.stop()

    return Every(reactor, EVERY_S, look, "the look for what the metagame wishes")


def begin_again() -> None:
    """At the end of this process run its command line in its place, with the code as it is then."""
    atexit.register(_replace)


def _replace() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves


NAME = "svc-stack"


@frozen
class Settings:
    """The variables of ``svc-stack`` itself, or lines of ``stack.env``; its children get none."""

    metrics_port: int | None = env("METRICS_PORT", port_number, default=None)
    workers: int = env("WORKERS", workers, default=1)
    worker_ports: int = env("WORKER_PORTS", port_number, default=61100)
    data_dir: Path | None = env("DATA_DIR", folder, default=None)
    frozen_s: int = env("FROZEN_SECONDS", whole(20, 3600), default=90)
    alerts_every_s: int = env("ALERTS_EVERY_SECONDS", whole(5, 3600), default=60)


class Options(usage.Options):
    """The command line: the host's folder, and whether the relay runs, too."""

    settings: Settings
    backups: BackupSettings
    components: list[Component]
    dashboard: str  # where the owner's page will be
    optParameters = [  # noqa: RUF012 - usage.Options wants it so
        ["config", "c", ".", "Folder with metagame.env, deploy.env and so on (svcctl init)."]
    ]
    optFlags = [  # noqa: RUF012 - usage.Options wants it so
        ["with-relay", None, "Also start the relay, which belongs on players' machines."],
        ["json", None, 'Print lines for machines: JSON, see the page "Logs".'],
    ]
    longdesc = 'The whole host from one folder. See the page "Install".'

    def postOptions(self) -> None:
        let_nobody_else_write()
        try:
            config = Path(self["config"])
            start_as_owner(self, NAME, config)
            own = config / WORKER_FILE
            environ = with_env_file(str(own) if own.is_file() else None, os.environ)
            self.settings = settings = load(Settings, environ)[0]
            self.backups = load(BackupSettings, environ)[0]
            found = components(config, with_relay=bool(self["with-relay"]))
            self.components = spread(found, settings.workers, settings.worker_ports)
            self.dashboard = dashboard(read(config / "metagame.env"))
        except BadHost as why:
            raise failed_start(f"{NAME}: --config {why}") from None
        except BadSetting as why:
            raise failed_start(f"{NAME}: {why}") from None
        other = rolling.read(config)
        if other is not None and other.pid != os.getpid():  # which may begin again
            raise failed_start(
                f"{NAME}: a svc-stack runs this host already, process {other.pid}; stop that one "
                "first, or have it begin anew with svcctl restart --rolling"
            )


def makeService(options: Options, reactor: Any = None) -> TopService:
    """What ``twistd svc-stack`` runs: all components of a host, their alerts and nightly backups.

    ``reactor`` is given by tests, whose clock they move.
    """
    if reactor is None:
        reactor = monotonic_reactor()
    as_json = bool(options["json"])
    top = top_service(reactor, production=as_json, service="stack")
    config = Path(options["config"]).absolute()
    data = options.settings.data_dir or config
    kept = Recent(Bounded(data / RECENT), top.lines.out)
    top.lines.out = kept
    # directly, since our own lines are written with a delay and the order should show
    write = Printer(kept.write, as_json)
    passed = environment(os.environ)
    children = Children(
        reactor,
        options.components,
        write,
        passed,
        str(data),
        options.dashboard,
        partial(give_up, reactor),
    )
    children.setServiceParent(top)
    Rolling(reactor, children, config).setServiceParent(top)
    _alerting(reactor, options, children, config, data).setServiceParent(top)
    wishes(reactor, data, begin_again).setServiceParent(top)
    if (at := options.backups.at) is not None:
        its = environment(os.environ, SCRATCH)
        Nightly(reactor, config, data, at, its, write).setServiceParent(top)
    show_figures(top, reactor, "stack", options.settings.metrics_port, figures(children))
    return top


def _alerting(
    reactor: Any, options: Options, children: Children, config: Path, data: Path
) -> IService:
    answering = Frozen(
        reactor, children, Doors(reactor, children.wanted), options.settings.frozen_s
    )
    host = Watched(
        config,
        data,
        children.wanted,
        answering.ready,
        options.settings.alerts_every_s,
        answering.look,
        tells_ends=True,
        backs_up=options.backups.at is not None,
    )
    watching, watch = alerting(reactor, host)
    children.when_ended = watch.ended
    return watching


def give_up(reactor: Any) -> None:
    """Stop in order, and end with status 1: ``twistd`` itself would end with 0."""
    atexit.register(_failed)
    reactor.stop()


def _failed() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def figures(children: Children) -> dict[str, Figure]:
    """What ``/metrics`` on METRICS_PORT shows, by metric name; read at each scrape."""
    return {
        "svc_stack_components": Figure("Components of this host.", lambda: len(children.wanted)),
        "svc_stack_components_ready": Figure("Components ready.", lambda: len(children.ready)),
        "svc_stack_starts_total": Figure(
            "Starts of components, those after a death included.",
            lambda: children.starts,
            counts=True,
        ),
    }
