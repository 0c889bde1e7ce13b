"""``svc-relay``: runs on a player's PC and forwards the game's plain HTTP over pinned TLS."""

from functools import partial
from typing import Any

from attrs import define
from twisted.application.service import Service
from twisted.logger import LogLevel

from svcserver.kernel import json
from svcserver.kernel.counters import Figure
from svcserver.kernel.foreign_text import failed_start, shown
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.kernel.system import epoch
from svcserver.kernel.times import iso
from svcserver.relay.checking import verdict
from svcserver.relay.relaying import PortBusy, RelayService, Target
from svcserver.relay.settings import RelaySettings, target_of
from svcserver.web.logs import LogLines, line_head, standard_lines
from svcserver.web.metrics import show_figures
from svcserver.web.options import ServiceOptions
from svcserver.web.serving import StartWarnings, TopService

NAME = "svc-relay"
SPACE = "svcserver.relay.proxy_policy"  # the namespace of request lines
_SHORT_SPACE = SPACE.removeprefix("svcserver.")


class Options(ServiceOptions):
    """The command line, whose invite overrides the invite in the environment."""

    name, shape = NAME, RelaySettings
    settings: RelaySettings
    target: Target
    optParameters = [  # noqa: RUF012 - usage.Options wants it so
        ["invite", None, None, "An invite string, or the path of an invite file."]
    ]
    optFlags = [  # noqa: RUF012 - usage.Options wants it so
        ["check", None, "Connect once, compare the certificate, print the result and exit."],
        ["json", None, 'Print log lines as JSON; see the page "Logs".'],
    ]
    longdesc = (
        "Forwards the local game to the server of an invite. "
        'Settings: the page "Letting players in over the internet".'
    )

    def check(self) -> list[str]:
        """Determine the target server; with ``--check``, test it, print the result and exit."""
        self.target = target_of(self.settings, self["invite"])
        if self["check"]:
            good, line = verdict(self.target, self.settings.connect_timeout_s)
            print(shown(line))  # noqa: T201 - the result of --check
            raise SystemExit(0 if good else 1)
        return []


@define(eq=False, slots=False)
class Guarded(Service):
    """The service that runs a RelayService.

    If the port is taken, the program exits with a one-line message.
    """

    relay: RelayService
    name: str = NAME

    def startService(self) -> None:
        Service.startService(self)
        try:
            self.relay.startService()
        except PortBusy as why:
            raise failed_start(
                f"{self.name}: {why.code}: {why}; stop the program that uses the port "
                "(perhaps another launcher), and start again"
            ) from None

    def stopService(self) -> Any:
        Service.stopService(self)
        return self.relay.stopService()


def write_log_line(lines: LogLines, text: str) -> None:
    """Write a request's log line without Twisted's logger, which is slow."""
    if not lines.shows(LogLevel.info):
        return
    if lines.as_json:
        line = line_head(epoch(), "info", SPACE, text)
        lines.keep(json.dump(line).decode() + "\n")
    else:
        lines.keep(f"{iso(epoch())} info {_SHORT_SPACE}: {text}\n")


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the service of ``twistd svc-relay``, which serves the game and the metrics.

    ``svc-launcher`` runs ``RelayService`` in its own process instead.
    """
    if reactor is None:
        reactor = monotonic_reactor()
    settings = options.settings
    lines = standard_lines(
        production=bool(options["json"]), level=settings.log_level, clock=reactor
    )
    top = TopService(lines)
    StartWarnings(options.warnings).setServiceParent(top)
    relay = RelayService(
        reactor,
        options.target,
        port=settings.port,
        connect_timeout_s=settings.connect_timeout_s,
        say=partial(write_log_line, lines),
        counters=top.counters,
    )
    Guarded(relay).setServiceParent(top)
    figures = {
        "svc_relay_connections": Figure(
            "Open connections of the game.", lambda: float(len(relay.factory.channels))
        )
    }
    show_figures(top, reactor, "relay", settings.metrics_port, figures)
    return top
