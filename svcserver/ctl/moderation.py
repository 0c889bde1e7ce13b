"""``svcctl sanctions`` and ``audit``, and acts on the database with their audit rows.

A running metagame looks at the database twice a second, so a player notices within one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NoReturn, TypeVar

import click
from attrs import evolve
from sqlalchemy import Connection

from svcserver.ctl.as_owner import actor
from svcserver.ctl.database import transact
from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Failed, Out, fail
from svcserver.db.refused import Refused
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.roles import Role
from svcserver.kernel.times import seconds_of
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.audit import (
    MAX_ROWS,
    Act,
    AuditQuery,
    Entry,
    add_row,
    audited,
    rows,
)
from svcserver.metagame.accounts.wire import AuditRow, shown
from svcserver.metagame.owner.moderation.acts import HeldSanction, holding
from svcserver.metagame.owner.wire import described

T = TypeVar("T")
W = TypeVar("W")
MOST_ROWS = 1_000_000  # of one command


def by_staff(
    host: Host,
    action: str,
    name: str,
    reason: str,
    work: Callable[[Staff, str, Callable[[], float]], W],
    choose: Callable[[W], Act[T]],
) -> T:
    """Run the act of ``work`` on an account that ``choose`` picks, as ``recorded`` does."""
    staff = Staff(actor(), Role.OWNER)
    return recorded(
        host, Entry(staff.name, action, name, reason), choose(work(staff, name, time.time))
    )


def recorded(host: Host, entry: Entry, act: Act[T]) -> T:
    """Run an act with its audit row; a refusal is recorded, and fails with one line."""
    try:
        return transact(host, audited(entry, time.time, act))
    except Refused as one:
        add, row, why = one.add, one.row, one.why
    transact(host, lambda tx: tx.execute(add, row))
    names_it = why.message.casefold().startswith(entry.target.casefold())
    fail(why.message if names_it else f"{entry.target}: {why.message}")


def refuse(host: Host, entry: Entry, why: Refusal) -> NoReturn:
    """Fail with what makes no sense, and record that it was tried, where there is a database."""
    with suppress(Failed):
        transact(host, lambda tx: add_row(tx, entry, time.time(), why.message))
    fail(why.message)


@click.command()
@about_a_host
def sanctions(host: Host, out: Out) -> None:
    """Every ban and mute that holds, the newest first."""
    found, rows = transact(host, _every_sanction), []
    shown = []
    for one, kind, sanction in found:
        said = dict(described(sanction) or {})
        shown.append({"id": one.id, "username": one.username, "kind": kind.value, "sanction": said})
        until = moment(said["until"]) if said["until"] else "no end"
        kept = [sanction.reason, sanction.note, ", ".join(sanction.networks)]
        rows.append(
            [one.username, kind.value, moment(said["since"]), until, sanction.made_by, *kept]
        )
    out.data({"sanctions": shown})
    if not found:
        out.say("nobody is banned or muted")
        return
    heads = ["name", "", "since (UTC)", "until", "by", "reason", "note", "addresses"]
    out.table(heads, rows)


def _every_sanction(tx: Connection) -> list[HeldSanction]:
    """Those that hold, read in pieces: a query takes so many names, and no more."""
    return [one for piece in holding(tx, time.time()) for one in piece]


def moment(at: object) -> str:
    """A time of ISO 8601 as tables show it, to the second."""
    return str(at)[:19].replace("T", " ")


@click.command()
@click.option("--actor", default="", help="Only what this member of staff did.")
@click.option("--target", default="", help="Only what was done to this account.")
@click.option("--since", default="", help="Only of the last 12h, 7d or so.")
@click.option("--until", default="", help="Only what is older than 12h, 7d or so.")
@click.option("--count", type=click.IntRange(1, MOST_ROWS), default=MAX_ROWS, help="At most.")
@about_a_host
def audit(
    host: Host, out: Out, actor: str, target: str, since: str, until: str, count: int
) -> None:
    """What staff did and tried, the newest first; with --json one object a row."""
    asked = AuditQuery(actor, target, _ago("--since", since) or 0.0, before=_ago("--until", until))
    found = []
    for row in _pages(host, asked, count):
        out.data(row)
        if not out.as_json:
            found.append(row)
    cells = [
        [
            moment(row["at"]),
            row["actor"],
            row["action"],
            row["target"],
            row["reason"],
            _came_of(row),
        ]
        for row in found
    ]
    out.table(["at (UTC)", "actor", "action", "target", "reason", ""], cells)
    if len(found) == count:
        out.say(f"these are the newest {count}; --count and --until show more")


def _came_of(row: AuditRow) -> str:
    """Why nothing was done, or that it is not known whether it was; empty for what was done."""
    if row["refused"]:
        return f"refused: {row['refused']}"
    after = row["after"] or {}
    return "begun" if after.get("begun") else str(after.get("outcome", ""))


def _ago(name: str, text: str) -> float | None:
    """The moment (epoch seconds) that is a length of time ago; None where none is given."""
    span = seconds_of(text) if text else None
    if text and span is None:
        fail(f"{name} {text}: give a length of time like 12h or 7d")
    return None if span is None else time.time() - span


def _pages(host: Host, asked: AuditQuery, count: int) -> Iterator[AuditRow]:
    """Up to ``count`` rows, each page in a transaction of its own."""
    left = count
    while left > 0:
        page = transact(host, partial(rows, query=evolve(asked, count=min(left, MAX_ROWS))))
        yield from map(shown, page)
        left -= len(page)
        if len(page) < MAX_ROWS:
            return
        asked = evolve(asked, until=page[-1]["id"])
