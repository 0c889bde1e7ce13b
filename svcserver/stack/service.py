"""``svc-stack``: runs all services of a host, one process each."""

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from attrs import fields, frozen
from twisted.application.service import IService
from twisted.logger import Logger
from twisted.python import usage

from svcserver.kernel import stack_request
from svcserver.kernel.backup_settings import BackupSettings, read_settings
from svcserver.kernel.counters import Figure
from svcserver.kernel.every import Every
from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.host_state import STACK
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.kernel.recent import RECENT, Bounded, Recent
from svcserver.kernel.settings import (
    BadSetting,
    env,
    folder,
    load,
    secret,
    variables,
    whole,
    with_env_file,
)
from svcserver.kernel.settings import port as port_number
from svcserver.kernel.system import epoch
from svcserver.kernel.umask import let_nobody_else_write
from svcserver.stack import rolling
from svcserver.stack.alerts.service import alerting
from svcserver.stack.alerts.watching import HostWatch
from svcserver.stack.backups import Nightly
from svcserver.stack.children import Children
from svcserver.stack.components import (
    SCRATCH,
    BadHost,
    Component,
    components,
    dashboard,
    environment,
)
from svcserver.stack.printing import Printer
from svcserver.stack.probes import FreezeMonitor, Probes
from svcserver.stack.rolling import Rolling
from svcserver.stack.workers import WORKER_FILE, read_env_file, spread, workers
from svcserver.web.metrics import show_figures
from svcserver.web.options import start_as_owner
from svcserver.web.serving import TopService, top_service

log = Logger()


NAME = "svc-stack"
EVERY_S = 2.0


def stop_requests(reactor: Any, folder: Path, restart: Callable[[], object]) -> IService:
    """Return the service that checks whether the metagame asks to stop or restart the stack."""

    def check() -> None:
        request = stack_request.take(folder, epoch())
        if request is None:
            return
        log.info("the server is empty: the stack stops ({request})", request=request)
        if request == "restart":
            restart()
        reactor.stop()

    return Every(reactor, EVERY_S, check, "the check for stop requests")


def restart_at_exit() -> None:
    """Start this program again, with the same arguments, when the process exits."""
    atexit.register(_restart)


def _restart() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves


@frozen
class StackSettings:
    """The settings of ``svc-stack`` itself, in ``stack.env``; child processes do not get them."""

    metrics_port: int | None = env("METRICS_PORT", port_number, default=None)
    workers: int = env("WORKERS", workers, default=1)
    worker_ports: int = env("WORKER_PORTS", port_number, default=61100)
    data_dir: Path | None = env("DATA_DIR", folder, default=None)
    frozen_s: int = env("FROZEN_SECONDS", whole(20, 3600), default=90)
    alerts_every_s: int = env("ALERTS_EVERY_SECONDS", whole(5, 3600), default=60)


def overridden(environ: Mapping[str, str], *shapes: type[Any]) -> dict[str, str | None]:
    """Return the variables of ``environ`` that override ``stack.env``.

    A secret has the value None.
    """
    values: dict[str, str | None] = {}
    for attribute in (attribute for shape in shapes for attribute in fields(shape)):
        name, is_secret = attribute.metadata["name"], attribute.metadata["read"] is secret
        if name in environ:
            values[name] = None if is_secret and environ[name].strip() else environ[name]
    return values


class HostOptions(usage.Options):
    """The command-line options of a program that runs or watches a host."""

    name: ClassVar[str]
    keep_rights: ClassVar[bool]
    beside_stack: ClassVar[str]  # the error message if a stack with the pid {pid} runs
    settings: StackSettings
    backups: BackupSettings
    components: list[Component]
    optParameters = [  # noqa: RUF012 - usage.Options wants it so
        ["config", "c", ".", "Folder with metagame.env, deploy.env and so on (svcctl init)."]
    ]

    def postOptions(self) -> None:
        let_nobody_else_write()
        try:
            config = Path(self["config"])
            start_as_owner(self, self.name, config, keep_rights=self.keep_rights)
            file = config / WORKER_FILE
            environ = with_env_file(str(file) if file.is_file() else None, os.environ)
            self.settings = load(StackSettings, environ)[0]
            self.backups = load(BackupSettings, environ)[0]
            self.load_host(config)
        except BadHost as error:
            raise failed_start(f"{self.name}: --config {error}") from None
        except BadSetting as error:
            raise failed_start(f"{self.name}: {error}") from None
        stack = rolling.read_state(config)
        if stack is not None and stack.pid != os.getpid():  # a stack may restart in its process
            raise failed_start(f"{self.name}: {self.beside_stack.format(pid=stack.pid)}")

    def load_host(self, config: Path) -> None:
        """Read the host's components, or raise BadHost or BadSetting."""
        self.components = components(config)


class Options(HostOptions):
    """The command-line options of ``svc-stack``."""

    name, keep_rights = NAME, True
    beside_stack = (
        "svc-stack already runs this host (pid {pid}). Stop it first, or restart it with "
        "svcctl restart --rolling."
    )
    dashboard: str  # the URL of the owner's page
    optFlags = [  # noqa: RUF012 - usage.Options wants it so
        ["with-relay", None, "Also start the relay, which belongs on players' machines."],
        ["json", None, 'Print log lines as JSON; see the page "Logs".'],
    ]
    longdesc = 'The whole host from one folder. See the page "Install".'

    def load_host(self, config: Path) -> None:
        single = components(config, with_relay=bool(self["with-relay"]))
        self.components = spread(single, self.settings.workers, self.settings.worker_ports)
        self.dashboard = dashboard(read_env_file(config / "metagame.env"))


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the service with a host's components, alerts and nightly backups."""
    if reactor is None:
        reactor = monotonic_reactor()
    as_json = bool(options["json"])
    top = top_service(reactor, production=as_json, service="stack")
    config = Path(options["config"]).absolute()
    data = options.settings.data_dir or config
    recent = Recent(Bounded(data / RECENT), top.lines.out)
    top.lines.out = recent
    # direct writes, because the stack's log lines are delayed and the order must be kept
    write = Printer(recent.write, as_json)
    children = Children(
        reactor,
        options.components,
        write,
        environment(os.environ),
        str(data),
        options.dashboard,
        partial(give_up, reactor),
    )
    children.setServiceParent(top)
    Rolling(reactor, children, config).setServiceParent(top)
    _alerting(reactor, options, children, config, data).setServiceParent(top)
    stop_requests(reactor, data, restart_at_exit).setServiceParent(top)
    environ = environment(os.environ, SCRATCH, "DATA_DIR", *variables(BackupSettings))
    Nightly(
        reactor, config, data, lambda: read_settings(config, os.environ).at, environ, write
    ).setServiceParent(top)
    show_figures(top, reactor, "stack", options.settings.metrics_port, figures(children))
    return top


def _alerting(
    reactor: Any, options: Options, children: Children, config: Path, data: Path
) -> IService:
    probes = Probes(reactor, children.components)
    monitor = FreezeMonitor(reactor, children, probes, options.settings.frozen_s)
    service, watch = alerting(
        reactor,
        config,
        data,
        children.components,
        ready=monitor.ready,
        probe=monitor.check,
        poll_s=options.settings.alerts_every_s,
        reports_crashes=True,
        backs_up=options.backups.at is not None,
        environment=overridden(os.environ, StackSettings, BackupSettings),
    )
    watch.on_start(STACK, epoch())
    children.on_crash = watch.on_crash
    children.on_start = lambda name: watch.on_start(name, epoch())
    children.on_complete = partial(check_now, monitor, watch)
    return service


def check_now(monitor: FreezeMonitor, watch: HostWatch) -> None:
    """Check the host now, so that the dashboard no longer shows its services as starting."""
    checked = monitor.check().addCallback(lambda _: watch.check())
    checked.addErrback(lambda failure: log.failure("the check after the start failed", failure))


def give_up(reactor: Any) -> None:
    """Stop the children in order and exit with status 1; ``twistd`` itself would exit with 0."""
    atexit.register(_failed)
    reactor.stop()


def _failed() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def figures(children: Children) -> dict[str, Figure]:
    """Return the metrics that METRICS_PORT serves, by metric name."""
    return {
        "svc_stack_components": Figure(
            "Components of this host.", lambda: len(children.components)
        ),
        "svc_stack_components_ready": Figure("Components ready.", lambda: len(children.ready)),
        "svc_stack_starts_total": Figure(
            "Starts of components, including restarts after a crash.",
            lambda: children.starts,
            counts=True,
        ),
    }
