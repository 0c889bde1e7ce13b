"""The commands ``svcctl sanctions`` and ``svcctl audit``, and functions that make audited changes.

A running metagame polls the database twice a second, so changes reach players within a second.
"""

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
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Failed, Out, fail
from svcserver.db.refused import RefusedWrite
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.roles import Role
from svcserver.kernel.times import seconds_of
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.audit import (
    MAX_ROWS,
    Act,
    AuditEntry,
    AuditQuery,
    add_row,
    audited,
    rows,
)
from svcserver.metagame.accounts.wire import AuditRow, shown
from svcserver.metagame.owner.moderation.acts import HeldSanction, holding
from svcserver.metagame.owner.wire import described

T = TypeVar("T")
W = TypeVar("W")
MOST_ROWS = 1_000_000  # maximum for one command


def by_staff(
    host: Host,
    action: str,
    name: str,
    reason: str,
    work: Callable[[Staff, str, Callable[[], float]], W],
    choose: Callable[[W], Act[T]],
) -> T:
    """Carry out a staff action on the account ``name``, on behalf of the owner; add an audit row.

    ``work`` is a class with a method for each action, such as ``StaffWork``. ``choose`` gets an
    instance of the class and returns the result of one of the methods.
    """
    staff = Staff(actor(), Role.OWNER)
    return recorded(
        host, AuditEntry(staff.name, action, name, reason), choose(work(staff, name, time.time))
    )


def recorded(host: Host, entry: AuditEntry, act: Act[T]) -> T:
    """Make a change and add its audit row.

    If the change is refused, the row records the attempt, and Failed is raised.
    """
    try:
        return transact(host, audited(entry, time.time, act))
    except RefusedWrite as error:
        add, row, why = error.add, error.row, error.why
    transact(host, lambda tx: tx.execute(add, row))
    names_it = why.message.casefold().startswith(entry.target.casefold())
    fail(why.message if names_it else f"{entry.target}: {why.message}")


def refuse(host: Host, entry: AuditEntry, why: Refusal) -> NoReturn:
    """Add an audit row about a refused attempt, if there is a database. Always raises Failed."""
    with suppress(Failed):
        transact(host, lambda tx: add_row(tx, entry, time.time(), why.message))
    fail(why.message)


@host_command(None, "sanctions")
def sanctions(host: Host, out: Out) -> None:
    """List all bans and mutes in force, newest first."""
    sanctions, rows = transact(host, _every_sanction), []
    entries = []
    for account, kind, sanction in sanctions:
        data = dict(described(sanction) or {})
        entries.append(
            {"id": account.id, "username": account.username, "kind": kind.value, "sanction": data}
        )
        until = moment(data["until"]) if data["until"] else "no end"
        details = [sanction.reason, sanction.note, ", ".join(sanction.networks)]
        rows.append(
            [account.username, kind.value, moment(data["since"]), until, sanction.made_by, *details]
        )
    out.data({"sanctions": entries})
    if not sanctions:
        out.text("No bans or mutes.")
        return
    heads = ["name", "", "since (UTC)", "until", "by", "reason", "note", "addresses"]
    out.table(heads, rows)


def _every_sanction(tx: Connection) -> list[HeldSanction]:
    """Return all sanctions in force."""
    return [entry for piece in holding(tx, time.time()) for entry in piece]


def moment(at: object) -> str:
    """Return an ISO 8601 time in the form ``YYYY-MM-DD HH:MM:SS``, which tables use."""
    return str(at)[:19].replace("T", " ")


@host_command(None, "audit")
@click.option("--actor", default="", help="Only actions by this staff member.")
@click.option("--target", default="", help="Only actions on this account.")
@click.option("--since", default="", help="Only actions newer than this, such as 12h or 7d.")
@click.option("--until", default="", help="Only actions older than this, such as 12h or 7d.")
@click.option(
    "--count",
    type=click.IntRange(1, MOST_ROWS),
    default=MAX_ROWS,
    help="Maximum number of rows to show.",
)
def audit(
    host: Host, out: Out, actor: str, target: str, since: str, until: str, count: int
) -> None:
    """Show what staff did and tried, newest first."""
    query = AuditQuery(actor, target, _ago("--since", since) or 0.0, before=_ago("--until", until))
    shown_rows = []
    for row in _pages(host, query, count):
        out.data(row)
        if not out.as_json:
            shown_rows.append(row)
    cells = [
        [
            moment(row["at"]),
            row["actor"],
            row["action"],
            row["target"],
            row["reason"],
            _came_of(row),
        ]
        for row in shown_rows
    ]
    out.table(["at (UTC)", "actor", "action", "target", "reason", ""], cells)
    if len(shown_rows) == count:
        out.text(f"These are the newest {count}. Use --count or --until for more.")


def _came_of(row: AuditRow) -> str:
    """Return the row's refusal or recorded outcome; empty if the row has neither."""
    if row["refused"]:
        return f"refused: {row['refused']}"
    after = row["after"] or {}
    return "begun" if after.get("begun") else str(after.get("outcome", ""))


def _ago(name: str, text: str) -> float | None:
    """Return the current epoch time minus ``text``, a duration such as ``12h``.

    Returns None if ``text`` is empty; raises Failed if it is not a duration.
    """
    span = seconds_of(text) if text else None
    if text and span is None:
        fail(f"{name} {text} is not a duration. Give a duration like 12h or 7d.")
    return None if span is None else time.time() - span


def _pages(host: Host, query: AuditQuery, count: int) -> Iterator[AuditRow]:
    """Yield up to ``count`` audit rows, reading each page in its own transaction."""
    left = count
    while left > 0:
        page = transact(host, partial(rows, query=evolve(query, count=min(left, MAX_ROWS))))
        yield from map(shown, page)
        left -= len(page)
        if len(page) < MAX_ROWS:
            return
        query = evolve(query, until=page[-1]["id"])
