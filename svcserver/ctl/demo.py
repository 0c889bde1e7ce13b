"""The command ``svcctl demo``, used by ``make run``: starts a new host with simulated players."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from attrs import evolve
from twisted.internet.defer import Deferred

from svcserver.ctl.blueprint import Ports
from svcserver.ctl.host import OWNER_KEY, Host, as_owner_of_its_folder, find
from svcserver.ctl.host_creation import create_host
from svcserver.ctl.launcher_file import how, supply
from svcserver.ctl.output import Out, config_of, fail, program
from svcserver.ctl.play.evening import PlayOptions
from svcserver.ctl.play.story import INTERRUPTED, PlayFailed
from svcserver.ctl.play_command import (
    Session,
    findings,
    print_times,
    relay_port_of,
    session_options,
)
from svcserver.ctl.stack_process import Stack
from svcserver.edge.invite import decode
from svcserver.edge.joining import NoJoinString, join_address, join_string, offered
from svcserver.kernel.reactor_run import run_in_reactor

FOLDER = "demo-host"
PORTS = Ports(gateway=61443, relay=61010)


@click.command("demo")
@click.option("--config", metavar="DIR", default=FOLDER, help="The demo host's folder.")
@click.option(
    "--once",
    is_flag=True,
    help="Stop when the simulated players have finished; exit with 0 on success.",
)
@session_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@as_owner_of_its_folder
def demo(
    config: str,
    once: bool,
    players: int,
    hunts: int,
    hunt_seconds: float,
    times: bool,
    as_json: bool,
) -> None:
    """Start a demo host with simulated players."""
    out, folder = Out(as_json), Path(config)
    if not (folder / "metagame.env").is_file():
        create_host(folder, "127.0.0.1", "owner", ports=PORTS, demo=True)
        out.text(f"a demo host was made in {folder.absolute()}")
    host = find(str(folder.absolute()), None)
    supply(host, out)
    options = PlayOptions(
        players, hunts, relay_port=relay_port_of(host), hunt_s=hunt_seconds, whole=True
    )
    options = evolve(options, keep=True)  # the owner can then look at the players' accounts
    session = Session(host, out, options)
    why = run(session, once=once)
    if why is None and times:
        print_times(out, session.timings)
    out.data(findings(session, why))
    if why is INTERRUPTED:
        fail(why.fault)
    if why is not None:
        fail(f"the session failed at the {why}; see the log {folder / 'stack.log'}")


def run(session: Session, *, once: bool) -> PlayFailed | None:
    """Start the stack and run the simulated session; return the failure, or None.

    Unless ``once`` is true, the stack keeps running after a successful session, until Ctrl-C.
    """
    ended: list[PlayFailed | None] = []

    async def work(reactor: Any) -> None:
        assert session.host.folder is not None  # noqa: S101 - found by --config
        stack = Stack(reactor, session.host.folder)
        reactor.addSystemEventTrigger(
            "before", "shutdown", lambda: Deferred.fromCoroutine(stack.stop())
        )
        why = await evening(reactor, stack, session)
        # a failure caused by stopping the stack is not the host's fault
        ended.append(INTERRUPTED if why is not None and stack.told_to_stop else why)
        if why is None and not once and not stack.told_to_stop:
            print_next_steps(session.host, session.out)
            await stack.gone  # until Ctrl-C or until the stack ends
            if not stack.told_to_stop:
                ended[0] = PlayFailed("stack", "ended by itself")

    with suppress(KeyboardInterrupt):
        run_in_reactor(work)
    return ended[0] if ended else session.clean_up(session.out.text) or INTERRUPTED


async def evening(reactor: Any, stack: Stack, session: Session) -> PlayFailed | None:
    """Start the stack, then run and check the simulated session; return the failure, or None."""
    try:
        stack.start()
        names = await stack.ready
    except PlayFailed as why:
        return why
    except OSError as why:
        return PlayFailed("stack", f"cannot be started: {why.strerror}")
    session.out.text(f"the stack runs: {names}")
    return await session.live(reactor)


def player_lines(host: Host) -> list[str]:
    """Return the addresses for a player to open: the host's page and the invite.

    The demo host needs no invite code, so the invite can contain any code.
    """
    if host.folder is None:
        return []
    try:
        text = join_string(host.folder, "DEMO")
    except NoJoinString:
        return []
    if text is None:
        return []
    page = join_address(host.folder, decode(text))
    none = "" if offered(host.folder) else f"; no launcher is there yet: {how(host.folder)}"
    return [
        "",
        "What a player would open:",
        *(
            [f"  {page} (a browser warns about the host's self-signed certificate{none})"]
            if page
            else []
        ),
        f"  {text}",
        f"or, on this machine, {program('svc-launcher')} '{text}'",
    ]


def print_next_steps(host: Host, out: Out) -> None:
    """Print the addresses and the next steps."""
    gateway, metagame = host.variables("gateway"), host.variables("metagame")
    assert host.folder is not None  # noqa: S101 - found by --config
    svcctl, config = program("svcctl"), config_of(host.folder)
    out.text(
        "",
        f"gateway    https://127.0.0.1:{gateway.get('GATEWAY_PORT', '443')} (what players reach)",
        f"metagame   http://127.0.0.1:{metagame.get('PORT', '')} (this machine only)",
        f"dashboard  {host.dashboard()} (in a browser; sign in with the owner's key)",
        f"settings   {host.folder}",
        f"owner      key in {host.path(OWNER_KEY)}",
        *player_lines(host),
        "",
        "Next, in another terminal:",
        f"  {svcctl} status {config}",
        f"  {svcctl} play {config}",
        f"  {svcctl} invite create {config}",
        f"A host of your own: {svcctl} up DIR",
        "",
        "Ctrl-C stops everything.",
    )
