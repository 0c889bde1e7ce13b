"""The command ``svcctl up``: creates a host if there is none, checks it and starts it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import segno
from attrs import evolve, frozen
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from svcserver.ctl.accounts import new_invite
from svcserver.ctl.blueprint import LOOPBACK, SERVER_NAME, own_address
from svcserver.ctl.dashboard import LASTS, DashboardAddress, link_or_none
from svcserver.ctl.doctor.case import Level
from svcserver.ctl.doctor.command import examine
from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.host import OWNER_KEY, Host, as_owner_of_its_folder, find
from svcserver.ctl.host_creation import create_host, host_name, owner_name
from svcserver.ctl.init import PublicAddress, base_port_option, place_of, taken_port, warn_of_my_ip
from svcserver.ctl.launcher_file import supply
from svcserver.ctl.output import Failed, Out, config_of, fail, program, prompt
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.stack_process import LOG, Stack
from svcserver.ctl.status_command import fetch_status
from svcserver.edge import joining
from svcserver.kernel.foreign_text import shown
from svcserver.kernel.reactor_run import run_in_reactor

FOLDER = "my-host"
OWNER = "owner"
UNPRIVILEGED_PORT = 8443  # port of the gateway if this user may not bind port 443
PUBLIC, PRIVATE = "public", "private"


@click.command("up")
@click.argument("folder", metavar="[DIR]", default=FOLDER, type=click.Path(path_type=Path))
@click.option(
    "--public-host", metavar="H[:PORT]", help="Make a public host that players reach at H."
)
@click.option("--private-host", metavar="A", help="Make a private host that listens on A.")
@base_port_option
@click.option("--name", metavar="NAME", help="The new host's name, which players see.")
@click.option("--owner", metavar="NAME", help="The first player, who owns the new host.")
@click.option("--yes", "-y", is_flag=True, help="Use the defaults of svcctl init without asking.")
@click.option(
    "--invite", "invited", is_flag=True, help="Make an invite even if the host already exists."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@as_owner_of_its_folder
def up(
    folder: Path,
    public_host: str | None,
    private_host: str | None,
    base_port: int | None,
    name: str | None,
    owner: str | None,
    yes: bool,
    invited: bool,
    as_json: bool,
) -> None:
    """Create (if needed), check and start a host in DIR.

    For a new host, the command asks four questions. An existing host is started unchanged. Ctrl-C
    stops the host.
    """
    out, new = Out(as_json), not (folder / "metagame.env").is_file()
    if new:
        make(folder, public_host, private_host, base_port, name, owner, out, ask=not yes)
    elif public_host or private_host or name or owner or base_port:
        fail(
            f"{folder} already contains a host. The options --public-host, --private-host,"
            " --base-port, --name and --owner are only for a new host. Change the env files in the"
            " folder, or choose another folder."
        )
    host = find(str(folder.absolute()), None)
    supply(host, out)
    if runs(host):
        fail(f"the host in {folder} is already running. The dashboard is {host.dashboard()}")
    check(host, out)
    card = Card.for_invite(host, new_invite(host, 1) if new or invited else None)
    why = run(host, lambda components: card.print_summary(out, components, link_or_none(host)))
    if why is not None:
        fail(f"the host stopped: {why}; see the log {folder / LOG}")


def answers(
    public_host: str | None,
    private_host: str | None,
    base_port: int | None,
    name: str | None,
    owner: str | None,
    *,
    ask: bool,
) -> tuple[PublicAddress, str | None, str | None]:
    """Return the new host's public address, the host's name and the name of its first player.

    A name is None if it was not given and ``ask`` is False.
    """
    if ask and public_host is None and private_host is None:
        mode = prompt(
            "Who can reach the host, the public internet or your private overlay network",
            type=click.Choice([PUBLIC, PRIVATE]),
            default=PRIVATE if own_address() else PUBLIC,
        )
        if mode == PUBLIC:
            question = "Name or address under which players reach the host"
            public_host = prompt_until_valid(question, lambda answer: place_of(answer, None))
        else:
            address = own_address() or LOOPBACK
            question = "Address to listen on"
            private_host = prompt_until_valid(
                question, lambda answer: place_of(None, answer), address
            )
    place = place_of(public_host, private_host, base_port)
    if taken := taken_port(place, Machine()):
        fail(taken)
    if ask and name is None:
        name = prompt_until_valid("Name of the host, which players see", host_name, SERVER_NAME)
    if ask and owner is None:
        owner = prompt_until_valid("Name of the first player, who owns the host", owner_name, OWNER)
    free = place.private or place.port_given
    if not free and Machine().port(LOOPBACK, place.ports.gateway).denied:
        place = evolve(place, ports=evolve(place.ports, gateway=UNPRIVILEGED_PORT))
    return place, name, owner


def prompt_until_valid(
    question: str, check: Callable[[str], object], default: str | None = None
) -> str:
    """Ask until ``check`` accepts the answer; print the reason for each rejected answer."""

    def checked(answer: str) -> str:
        try:
            check(answer)
        except Failed as why:
            _, _, rest = why.message.partition(" ")  # after the option's name
            raise click.UsageError(shown(rest)) from None
        return answer

    answer: str = prompt(question, default=default, value_proc=checked)
    return answer


def make(
    folder: Path,
    public_host: str | None,
    private_host: str | None,
    base_port: int | None,
    name: str | None,
    owner: str | None,
    out: Out,
    *,
    ask: bool,
) -> None:
    """Create the host, as ``svcctl init`` does; if ``ask`` is true, ask for missing values."""
    try:
        place, name, owner = answers(public_host, private_host, base_port, name, owner, ask=ask)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        fail(
            "svcctl up cannot ask you about the new host, because the input is not a terminal. "
            "Give --yes, with --public-host H and --owner NAME."
        )
    made = create_host(
        folder,
        place.address,
        owner or OWNER,
        ports=place.ports,
        private=place.private,
        name=name,
    )
    out.text(f"a host for {made.address} was made in {made.folder}")
    if not place.private and place.ports.gateway == UNPRIVILEGED_PORT:
        out.text(f"its gateway is on port {UNPRIVILEGED_PORT}: open it for TCP in your firewall")
    warn_of_my_ip(out, made)


def runs(host: Host) -> bool:
    """Return whether the metagame of this host already replies."""
    try:
        fetch_status(host)
    except Failed:
        return False
    return True


def check(host: Host, out: Out) -> None:
    """Print the findings of ``svcctl doctor``; raises Failed if there is a fault."""
    assert host.folder is not None  # noqa: S101 - a folder was given
    findings = examine(host, host.folder)
    for finding in findings:
        out.text(str(finding))
    wrong = [finding for finding in findings if finding.level is Level.WRONG]
    if wrong:
        fail(f"the host was not started: {wrong[0].component}: {wrong[0].what}; {wrong[0].cure}")


@frozen
class Card:
    """The summary that is printed for the owner when the host runs."""

    folder: Path
    dashboard: DashboardAddress
    code: str | None
    join: str | None

    @classmethod
    def for_invite(cls, host: Host, invite: tuple[str, str | None] | None) -> Card:
        assert host.folder is not None  # noqa: S101 - a folder was given
        code, join = invite or (None, None)
        return cls(host.folder, DashboardAddress.for_host(host), code, join)

    def print_summary(self, out: Out, components: str, link: str | None = None) -> None:
        """Print the summary, with the invite also as a QR code.

        ``link`` is the secret of a sign-in link for the dashboard.
        """
        sign_in = None if link is None else self.dashboard.sign_in(link)
        out.data(
            {
                "folder": str(self.folder),
                "components": components.split(", "),
                "dashboard": self.dashboard.url,
                "signIn": sign_in,
                "tunnel": self.dashboard.tunnel,
                "code": self.code,
                "join": self.join,
            }
        )
        out.text(
            "",
            f"Your host runs: {components}",
            "",
            *self._dashboard(sign_in),
            *self._invite(),
        )
        if self.join is not None and not out.as_json:
            segno.make(self.join, error="m").terminal(compact=True)
        svcctl = program("svcctl")
        out.text(
            f"settings   {self.folder}; the services' log is {LOG} there",
            "",
            f"Ctrl-C stops it; {svcctl} up {shlex.quote(str(self.folder))} starts it again.",
        )

    def _dashboard(self, sign_in: str | None) -> list[str]:
        tunnel = self.dashboard.tunnel
        first = f"dashboard  {self.dashboard.url}"
        where = "in a browser on this machine"
        if tunnel is not None:
            where = "in a browser on your own computer, while this command runs there:"
        return [
            first,
            f"           {where}" + ("" if tunnel else f"; {self._key()}"),
            *([f"           {tunnel}", f"           {self._key()}"] if tunnel else []),
            *([f"sign in    {sign_in}", f"           {LASTS}"] if sign_in else []),
        ]

    def _key(self) -> str:
        """Return a text that says where the owner's key is, or that no file has the key."""
        if (self.folder / OWNER_KEY).is_file():
            return f"the key is in {self.folder / OWNER_KEY}"
        return "the owner's key is still valid, but no file here has it"

    def _invite(self) -> list[str]:
        if self.join is not None:
            letter = joining.letter(self.folder, self.join)
            return [f"invite     {self.join}", "", "Send it to a friend, privately:", *letter, ""]
        if self.code is not None:
            return [f"invite     code {self.code}; only this machine reaches this host"]
        return [f"invite     {program('svcctl')} invite create --qr {config_of(self.folder)}"]


def run(host: Host, ready: Callable[[str], None]) -> PlayFailed | None:
    """Run the stack until Ctrl-C; when all components serve, call ``ready`` with their names.

    If the stack fails, return the failure.
    """
    failed: list[PlayFailed] = []

    async def work(reactor: Any) -> None:
        assert host.folder is not None  # noqa: S101 - a folder was given
        stack = Stack(reactor, host.folder)
        reactor.addSystemEventTrigger(
            "before", "shutdown", lambda: Deferred.fromCoroutine(stack.stop())
        )
        try:
            stack.start()
            await deferToThread(ready, await stack.ready)
            await stack.gone  # until Ctrl-C or until the stack ends
            ended = PlayFailed("stack", "ended by itself")
        except PlayFailed as why:
            ended = why
        except OSError as why:
            ended = PlayFailed("stack", f"cannot be started: {why.strerror}")
        if not stack.told_to_stop:
            failed.append(ended)

    with suppress(KeyboardInterrupt):
        run_in_reactor(work)
    return failed[0] if failed else None
