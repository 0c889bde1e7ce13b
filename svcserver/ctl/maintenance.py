"""The commands ``svcctl drain``, ``update``, ``restart`` and ``upgrade``."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from svcserver.ctl import database
from svcserver.ctl.as_owner import Act, Arguments, NobodyListens, Owner, Reply, owner_of
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Failed, Out, echo, fail
from svcserver.db import migrations
from svcserver.db.migrations import revisions, scripts
from svcserver.metagame.owner.maintenance.wire import DrainRequest
from svcserver.stack import rolling

ROLLING_S = 600.0
ROLLING_LOOK_S = 0.2


def running_stack(host: Host, otherwise: str) -> tuple[Path, rolling.StackState]:
    """Return the host's folder and its running stack.

    Raises Failed if no stack runs; the message ends with ``otherwise``, which says what to do.
    """
    folder = host.folder or Path()
    running = rolling.read_state(folder)
    if running is None:
        fail(f"no svc-stack runs in {folder.absolute()}. {otherwise}")
    return folder, running


@host_command(None, "restart", reason=True)
@click.option(
    "--rolling",
    "is_rolling",
    is_flag=True,
    help="Restart services one at a time. You must give this option.",
)
def restart(host: Host, out: Out, is_rolling: bool, reason: str) -> None:
    """Restart the services without downtime.

    Restart the metagames, the deploy server and the content server of a running svc-stack. Requests
    wait in the gateway meanwhile, game servers keep running, and the gateway is not restarted.
    """
    with noted(host, "restart", reason=reason):
        _restart(host, is_rolling=is_rolling)
    out.data({"restarted": True})
    out.text("every metagame, the deploy server and the content server have been restarted")


def _restart(host: Host, *, is_rolling: bool) -> None:
    """Restart the stack and wait until it runs again; raises Failed."""
    if not is_rolling:
        fail(
            "svcctl restart needs --rolling, which restarts one service at a time. To restart all "
            "services together, stop and start svc-stack."
        )
    folder, before = running_stack(
        host,
        "Under systemd, run systemctl restart svc-metagame."
        " The gateway delays requests until the metagame runs again.",
    )
    if before.rolling:
        fail("Another rolling restart is in progress. Try again when that restart has ended.")
    os.kill(before.pid, signal.SIGHUP)
    deadline = time.monotonic() + ROLLING_S
    while True:
        after = rolling.read_state(folder)
        if after is None:
            fail("The stack ended during the restart. See the stack's log.")
        if after.rolled > before.rolled:
            break
        if time.monotonic() >= deadline:
            fail(f"The restart did not finish within {ROLLING_S:.0f} s. See the stack's log.")
        time.sleep(ROLLING_LOOK_S)
    if not after.well:
        fail(
            "The restart of a component failed, so the remaining components were not restarted."
            " See the stack's log."
        )


@host_command(None, "upgrade")
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="Only show the migrations and change nothing. You must give this option.",
)
def upgrade(host: Host, out: Out, only_check: bool) -> None:
    """Show the pending migrations, without running them."""
    if not only_check:
        fail(
            "svcctl upgrade needs the option --check, which only shows the pending migrations. "
            "To run migrations, use svcctl db upgrade or restart the metagame."
        )
    engine = database.existing(database.url_of(host))
    with database.transaction(engine) as tx:
        newer = revisions.newer(tx)
        pending = [] if newer is not None else scripts.pending(tx)
    if newer is not None:
        fail(
            f"the database cannot be upgraded, because {migrations.too_new(newer)}. "
            "Install the version of svcserver that last upgraded the database, or a newer version."
        )
    out.data(
        {"migrations": [{"revision": revision, "what": change} for revision, change in pending]}
    )
    if not pending:
        out.text("No migrations are pending.")
        return
    out.text(f"{len(pending)} migrations are pending; they only add to the database:")
    out.text(*(f"  {revision}  {change}" for revision, change in pending))
    out.text("Make a backup first: svcctl backup now --database FILE")


ROUTE = "DashboardDrain"
LOOK_S = 2.0
ACTING = ("stopping", "restarting")  # the stack has received the command
PATIENCE_S = 120.0  # time for the stack to restart
START_S = 60.0  # time for a starting metagame to upgrade its database
TRY_S = 0.5
WHY = "The reason, shown to players and in the audit log."
WAIT = click.option(
    "--wait", is_flag=True, help="Wait until hunts have ended and any stop or restart is complete."
)
NOBODY_ONLINE = click.option(
    "--nobody-online",
    "until",
    is_flag=True,
    callback=lambda _, __, is_set: "nobody" if is_set else "no hunt",
    help="Also wait until no player is online.",
)


@click.group()
def drain() -> None:
    """Stop new hunts and let running hunts end."""


def _once_empty(owner: Owner, act: Callable[[], Reply], arguments: Arguments) -> Reply:
    """Drain the server; with --wait, return when the server is empty."""
    return _until_empty(owner, act()) if arguments["wait"] else act()


@Act(
    ROUTE,
    DrainRequest,
    {},
    drain,
    fixed={"on": True, "until": "no hunt"},
    helps={"then": "What svc-stack does when the last hunt has ended.", "reason": WHY},
    types={"then": click.Choice(["stop", "restart"])},
    more=[WAIT, NOBODY_ONLINE],
    send=_once_empty,
)
def on(reply: Reply, _: Arguments) -> list[str]:
    """Refuse new hunts and inform waiting players."""
    return _lines(reply)


@Act(
    ROUTE,
    DrainRequest,
    {},
    drain,
    fixed={"on": False, "then": "", "until": "no hunt"},
    send=lambda _, act, __: _once_it_listens(act),
)
def off(reply: Reply, _: Arguments) -> list[str]:
    """Allow new hunts again.

    If the metagame is still starting, for example after an upgrade, the command waits up to a
    minute.
    """
    return _lines(reply)


@host_command(drain, "status")
def drain_status(host: Host, out: Out) -> None:
    """Show whether new hunts may begin and who is online."""
    state = owner_of(host).get(ROUTE)
    out.data(state)
    out.text(*_lines(state))


@click.group()
def update() -> None:
    """Update a running host to the installed version."""


@host_command(update, "when-empty")
@NOBODY_ONLINE
@click.option("--reason", default="update", help=WHY)
@WAIT
def when_empty(host: Host, out: Out, until: str, reason: str, wait: bool) -> None:
    """Restart svc-stack when no hunt is running.

    New hunts are refused until then. To cancel the restart, run "svcctl drain off".
    """
    folder, before = running_stack(
        host,
        "Run svcctl drain on --wait. Restart your services, for example with"
        " systemctl restart 'svc-*'. Then run svcctl drain off.",
    )
    body = {"On": True, "Then": "restart", "Reason": reason, "Until": until}
    owner = owner_of(host)
    state = owner.post(ROUTE, body)
    if wait:
        _until_restarted(owner, folder, before.begun)
    out.data({**state, "restarted": wait})
    out.text(
        "the stack has been restarted" if wait else "the stack restarts when no hunt is running"
    )
    if not wait:
        out.text(*_lines(state))


def _once_it_listens(
    act: Callable[[], dict[str, Any]],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Call ``act``; while the connection is refused, try again for up to ``START_S`` seconds.

    Without these retries, ``svcctl drain off`` could fail directly after an upgrade.
    """
    began, is_printed = clock(), False
    while True:
        try:
            return act()
        except NobodyListens:
            if clock() - began >= START_S:
                raise
        if not is_printed:
            echo(f"the metagame does not answer yet; waiting up to {START_S:.0f} s", err=True)
            is_printed = True
        sleep(TRY_S)


def _until_empty(owner: Owner, state: Reply) -> Reply:
    while not state["empty"]:
        time.sleep(LOOK_S)
        state = owner.get(ROUTE)
        if state["drain"] is None:
            fail("The wait ended because somebody ended maintenance mode.")
    return state


def _until_restarted(owner: Owner, folder: Path, begun: float) -> None:
    """Wait until a stack that was started after ``begun`` runs; raises Failed."""
    acts_since: float | None = None
    while True:
        time.sleep(LOOK_S)
        now, state = rolling.read_state(folder), _standing(owner)
        if now is not None and now.begun > begun and state is not None:
            return
        if (
            state is not None
            and state["drain"] is not None
            and state["drain"]["then"] not in ACTING
        ):
            acts_since = None
        elif acts_since is None:
            acts_since = time.monotonic()
        elif time.monotonic() - acts_since > PATIENCE_S:
            fail("The stack did not restart. See the stack's log and the output of svcctl audit.")


def _standing(owner: Owner) -> dict[str, Any] | None:
    """Return the maintenance state; None while the metagame does not reply."""
    try:
        state: dict[str, Any] = owner.get(ROUTE)
    except Failed:
        return None
    return state


def _lines(state: dict[str, Any]) -> list[str]:
    drain = state["drain"]
    hunts = "unknown" if state["hunts"] is None else str(state["hunts"])
    load = f"hunts running: {hunts}; players online: {state['playersOnline']}"
    if drain is None:
        return ["new hunts may begin", load]
    since = f"new hunts are paused since {drain['since']} by {drain['by']}"
    why = [f"reason: {drain['reason']}"] if drain["reason"] else []
    if drain["then"] in ACTING:
        return [since, *why, f"the server is empty, and the stack is {drain['then']}"]
    then = {"": "", "stop": "; then the stack stops", "restart": "; then the stack restarts"}
    until = "nobody is online" if drain["until"] == "nobody" else "no hunt runs"
    load_now = "empty" if state["empty"] else load
    return [since, *why, f"waits until {until}{then[drain['then']]}", load_now]
