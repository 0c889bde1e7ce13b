"""``svcctl restart --rolling`` and ``svcctl upgrade --check``."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from svcserver.ctl import database
from svcserver.ctl.host import Host, about_a_host, with_reason
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Out, fail
from svcserver.db import migrations
from svcserver.db.migrations import revisions, scripts
from svcserver.stack import rolling

PATIENCE_S = 600.0
LOOK_S = 0.2


def running_stack(host: Host, otherwise: str) -> tuple[Path, rolling.StackState]:
    """Return the host's folder and its stack; without one fails with ``otherwise`` as the cure."""
    folder = host.folder or Path()
    running = rolling.read_state(folder)
    if running is None:
        fail(f"no svc-stack runs in {folder.absolute()}; {otherwise}")
    return folder, running


@click.command("restart")
@click.option("--rolling", "is_rolling", is_flag=True, help="One after the other, while it serves.")
@with_reason
@about_a_host
def restart(host: Host, out: Out, is_rolling: bool, reason: str) -> None:
    """Restart the services without downtime.

    Players notice nothing: a request that comes meanwhile waits in the gateway, or goes to
    another worker, and game servers run on. The gateway is left as it is.
    """
    with noted(host, "restart", reason=reason):
        _restart(host, is_rolling=is_rolling)
    out.data({"restarted": True})
    out.text("every metagame, the deploy server and the content server have been restarted")


def _restart(host: Host, *, is_rolling: bool) -> None:
    """Restart the stack and wait for it; fails with one line."""
    if not is_rolling:
        fail("give --rolling; to restart all at once, stop svc-stack and start it again")
    folder, before = running_stack(
        host,
        "under systemd run systemctl restart svc-metagame:"
        " the gateway lets requests wait meanwhile",
    )
    if before.rolling:
        fail("another rolling restart is under way; ask again when it is over")
    os.kill(before.pid, signal.SIGHUP)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        after = rolling.read_state(folder)
        if after is None:
            fail("the stack ended during the restart; look at its lines")
        if after.rolled > before.rolled:
            break
        if time.monotonic() >= deadline:
            fail(f"the restart is not over after {PATIENCE_S:.0f} s; look at the stack's lines")
        time.sleep(LOOK_S)
    if not after.well:
        fail("a component did not come back, the others were left as they are; look at its lines")


@click.command("upgrade")
@click.option("--check", "only_check", is_flag=True, help="Say it, and change nothing.")
@about_a_host
def upgrade(host: Host, out: Out, only_check: bool) -> None:
    """Show pending database migrations."""
    if not only_check:
        fail("give --check; the migrations are made by svcctl db upgrade, or the metagame's start")
    engine = database.existing(database.url_of(host))
    with database.transaction(engine) as tx:
        newer = revisions.newer(tx)
        pending = [] if newer is not None else scripts.pending(tx)
    if newer is not None:
        fail(f"the database: {migrations.too_new(newer)}; install that version, or a newer one")
    out.data(
        {"migrations": [{"revision": revision, "what": change} for revision, change in pending]}
    )
    if not pending:
        out.text("this version makes no change to the database")
        return
    out.text(f"this version will make {len(pending)} changes to the database, which only add:")
    out.text(*(f"  {revision}  {change}" for revision, change in pending))
    out.text("make a backup first: svcctl backup now --database FILE")
