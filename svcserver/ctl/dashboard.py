"""The command ``svcctl dashboard``: prints the dashboard's address and a single-use link."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

import click
from attrs import frozen

from svcserver.ctl.as_owner import owner_of
from svcserver.ctl.blueprint import LOOPBACK
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Failed, Out
from svcserver.kernel.digits import whole_in

ROUTE = "DashboardSignInLink"
SSH_PORT = 22
LASTS = "valid once, for ten minutes"


@frozen
class DashboardAddress:
    """The dashboard's URL for the owner's browser.

    Over SSH, ``tunnel`` is the command that the owner runs to forward the dashboard's port.
    """

    url: str
    tunnel: str | None = None

    @classmethod
    def for_host(cls, host: Host, environ: Mapping[str, str] | None = None) -> DashboardAddress:
        """Return the dashboard's address; ``tunnel`` is set if ``environ`` shows an SSH session."""
        url = host.dashboard()
        machine = _ssh_address(os.environ if environ is None else environ)
        if machine is None:
            return cls(url)
        parts = urlsplit(url)
        forwarded = f"{parts.port}:{parts.netloc}"
        return cls(
            parts._replace(netloc=f"{LOOPBACK}:{parts.port}").geturl(),
            f"ssh -L {forwarded} {machine}",
        )

    def sign_in(self, link: str) -> str:
        """Return the URL that signs in with this link's secret.

        The secret is in the fragment, which browsers do not send.
        """
        return f"{self.url}#/sign-in/{link}"


def _ssh_address(environ: Mapping[str, str]) -> str | None:
    """Return the ``ssh`` arguments that reach this machine; None without an SSH session."""
    match environ.get("SSH_CONNECTION", "").split():
        case [_, _, address, port]:
            pass
        case _:
            return None
    try:
        address = str(ip_address(address.partition("%")[0]))
        user = environ.get("SUDO_USER") or getpass.getuser()
    except (ValueError, KeyError, OSError):
        return None
    number = whole_in(port, 5) or SSH_PORT
    option = "" if number == SSH_PORT else f"-p {number} "
    return f"{option}{shlex.quote(user)}@{address}"


def link_or_none(host: Host) -> str | None:
    """Return the secret of a new sign-in link, or None if the metagame gives no link."""
    with suppress(Failed):
        link: str = owner_of(host).post(ROUTE, {})["Link"]
        return link
    return None


@host_command(None, "dashboard")
@click.option(
    "--account", metavar="NAME", default="", help="The staff account. Default: the owner."
)
def dashboard(host: Host, out: Out, account: str) -> None:
    """Print a single-use link to sign in to the dashboard.

    The link is valid for ten minutes.
    """
    address = DashboardAddress.for_host(host)
    reply = owner_of(host).post(ROUTE, {"Account": account} if account else {})
    link, name = reply["Link"], reply["Username"]
    out.data({"account": name, "signIn": address.sign_in(link), "tunnel": address.tunnel})
    if address.tunnel is not None:
        out.text("On your own computer, keep this command running:", f"  {address.tunnel}", "")
    out.text(f"Open in a browser, to sign in as {name} ({LASTS}):", f"  {address.sign_in(link)}")
