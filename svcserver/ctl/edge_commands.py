"""The commands ``svcctl relay`` and ``svcctl allowlist``."""

import click

from svcserver.allowlist.service import close_ports
from svcserver.allowlist.settings import AllowlistSettings
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Out, fail
from svcserver.kernel.settings import BadSetting
from svcserver.relay.checking import verdict
from svcserver.relay.settings import RelaySettings, target_of


@click.group()
def relay() -> None:
    """Check a relay's connection to the gateway."""


@host_command(relay, "check")
@click.option(
    "--invite",
    metavar="STRING|FILE",
    help="The join string to test, or a file with it. Default: the relay's settings.",
)
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


@host_command(allowlist, "close-ports")
def close(host: Host, out: Out) -> None:
    """Close the game ports after svc-allowlist was killed."""
    settings = host.settings("allowlist", AllowlistSettings)
    try:
        message = close_ports(settings)
    except SystemExit as why:
        fail(str(why.code))
    out.data({"closed": True, "said": message})
    out.text(message)
