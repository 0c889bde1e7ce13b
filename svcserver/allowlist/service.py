"""``svc-allowlist``: opens the UDP game ports only for players' addresses."""

from pathlib import Path
from typing import Any

from attrs import define
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.allowlist import firewall as firewalls
from svcserver.allowlist.entries import Entries
from svcserver.allowlist.firewall import DryRun, Firewall, NoFirewall
from svcserver.allowlist.helper import Helper
from svcserver.allowlist.persistence import AddressLog, StateFile
from svcserver.allowlist.programs import FirewallError, Programs
from svcserver.allowlist.routes import METHODS, AllowlistHandler
from svcserver.allowlist.settings import AllowlistSettings
from svcserver.kernel.counters import Figure
from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.monotonic import MonotonicClock, monotonic_reactor
from svcserver.kernel.reactor_run import run_in_reactor
from svcserver.kernel.system import epoch
from svcserver.web.logs import json_lines
from svcserver.web.metrics import CountingHandler, show_figures
from svcserver.web.options import ServiceOptions
from svcserver.web.serving import Listening, StartWarnings, TopService
from svcserver.web.site import HttpFactory

log = Logger()
NAME = "svc-allowlist"


class Options(ServiceOptions):
    """The command line: ``--env-file`` only; all settings come from the environment."""

    name, shape, keeps_rights = NAME, AllowlistSettings, True
    settings: AllowlistSettings
    longdesc = 'Opens the game ports for players. Settings: the page "Configuration".'


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the allowlist helper as a service."""
    if reactor is None:
        reactor = monotonic_reactor()
    settings = options.settings
    helper = make_helper(settings, reactor)
    handler = AllowlistHandler(helper, settings.secret)
    top = TopService(json_lines(settings.log_level, reactor))
    counted = CountingHandler(handler, top.counters, paths=tuple(METHODS))
    factory = HttpFactory(counted, reactor, top.counters, proxy_headers=(GATEWAY,))
    listening = Listening(
        reactor,
        "allowlist",
        settings.port,
        settings.bind_host,
        factory,
        variables="ALLOWLIST_PORT or ALLOWLIST_BIND",
    )
    for part in (StartWarnings(options.warnings), HelperService(helper), listening):
        part.setServiceParent(top)  # started in this order
    show_figures(top, reactor, "allowlist", settings.metrics_port, figures(helper))
    return top


def figures(helper: Helper) -> dict[str, Figure]:
    """Return the metrics that METRICS_PORT serves; each scrape reads the current values."""
    return {
        "svc_allowlist_open_addresses": Figure("Addresses open now.", lambda: len(helper.entries)),
        "svc_allowlist_pending": Figure(
            "1 while the firewall does not have the latest change yet.",
            lambda: int(helper.applier.pending),
        ),
        "svc_allowlist_last_run_failed": Figure(
            "1 if the last change of the firewall failed.",
            lambda: int(helper.applier.last is not None and not helper.applier.last.ok),
        ),
    }


def make_helper(settings: AllowlistSettings, reactor: Any) -> Helper:
    """Return the helper; exit with a one-line message if rights, programs or files are missing."""
    audit = AddressLog(Path(settings.audit_log), epoch)
    try:
        audit.check()
    except OSError as why:
        raise failed_start(
            f"{NAME}: ALLOWLIST_AUDIT_LOG {audit.path} cannot be written: {why.strerror}; "
            "name a file in a folder to which this user may write"
        ) from None
    if not Path(settings.state_file).absolute().parent.is_dir():
        raise failed_start(
            f"{NAME}: the folder of ALLOWLIST_STATE_FILE {settings.state_file} does not exist; "
            "create it"
        )
    return Helper(
        reactor,
        # a change of the machine's clock must not lock players out, or keep expired addresses
        MonotonicClock().read_epoch,
        Entries(float(settings.ttl_s), settings.max_entries),
        make_firewall(settings, reactor),
        settings.ports,
        audit,
        StateFile(Path(settings.state_file)),
        settings.allow_private,
        settings.min_interval_ms / 1000,
    )


def make_firewall(settings: AllowlistSettings, reactor: Any) -> Firewall:
    """Return the firewall that the settings select; raises SystemExit if it cannot be used."""
    try:
        chosen = firewalls.choose(
            settings.backend,
            settings.paths,
            settings.nft_set,
            Programs(reactor),
            dry_run=settings.dry_run,
        )
    except NoFirewall as why:
        raise failed_start(f"{NAME}: {why}") from None
    if settings.dry_run:
        return DryRun(chosen)
    if settings.backend != "none" and not firewalls.may_change_firewall():
        raise failed_start(
            f"{NAME}: this user may not change the firewall; start the helper as root or "
            "administrator (Linux: CAP_NET_ADMIN is enough), or set ALLOWLIST_DRY_RUN=1"
        )
    return chosen


def close_ports(settings: AllowlistSettings) -> str:
    """Close the ports after the helper was killed, for ``svcctl allowlist close-ports``.

    Runs its own reactor and returns one line for the owner. Raises SystemExit with a one-line
    message if the firewall fails.
    """

    async def work(reactor: Any) -> str:
        helper = make_helper(settings, reactor)
        try:
            await helper.close()
        except FirewallError as why:
            raise failed_start(f"{NAME}: the ports cannot be closed: {why}") from None
        done = "would be closed (dry run, see the audit log)" if helper.dry_run else "are closed"
        return f"UDP ports {settings.ports} {done}"

    return run_in_reactor(work)


@define(eq=False, slots=False)
class HelperService(Service):
    """The service that runs the helper from start to stop."""

    helper: Helper

    def startService(self) -> None:
        Service.startService(self)
        self.helper.start()

    def stopService(self) -> Deferred[None]:
        Service.stopService(self)
        return Deferred.fromCoroutine(self.helper.stop())
