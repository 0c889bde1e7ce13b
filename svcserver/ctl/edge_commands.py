"""``svcctl relay`` and ``svcctl allowlist``."""

from __future__ import annotations

import click

from svcserver.allowlist.service import close_ports
from svcserver.allowlist.settings import Settings as AllowlistSettings
from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Out, fail
from svcserver.kernel.settings import BadSetting
from svcserver.relay.checking import verdict
from svcserver.relay.settings import Settings as RelaySettings
from svcserver.relay.settings import target_of


@click.group()
def relay() -> None:
    """Check a player's relay."""


@relay.command("check")
@click.option("--invite", metavar="STRING|FILE", help="The invite; default: the relay's settings.")
@about_a_host
def check(host: Host, out: Out, invite: str | None) -> None:
    """Connect to the gateway and check its certificate."""
    settings = host.settings("relay", RelaySettings) if invite is None else RelaySettings()
    try:
        target = target_of(settings, invite)
    except BadSetting as why:
        fail(str(why))
    good, message = verdict(target, settings.connect_timeout_s)
    out.data({"ok": good, "host": target.host, "port": target.port, "said": message})
    if not good:
        fail(message)
    out.text(message)


@click.group()
def allowlist() -> None:
    """Manage the firewall rule for the game ports."""


@allowlist.command("close-ports")
@about_a_host
def close(host: Host, out: Out) -> None:
    """Close the game ports after svc-allowlist was killed."""
    settings = host.settings("allowlist", AllowlistSettings)
    try:
        message = close_ports(settings)
    except SystemExit as why:
        fail(str(why.code))
    out.data({"closed": True, "said": message})
    out.text(message)
