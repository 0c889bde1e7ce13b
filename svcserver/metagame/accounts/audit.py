"""The audit log: a row for every staff action and every refused attempt.

The row is written in the transaction of the action. An action without a transaction has two rows:
one at its beginning and one with its result. The database refuses to change or delete a row
(a trigger of migration 0009).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import sqlalchemy as sa
from attrs import define, evolve, frozen

from svcserver.db.ledger import ACROSS, Ledger, Scope
from svcserver.db.refused import RefusedWrite, write_or_record
from svcserver.db.shield import shielded
from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel import json
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal, Unanswered

T = TypeVar("T")

LONGEST = {"actor": 96, "action": 64, "target": 128, "reason": 256, "refused": 256}
MAX_SHOWN = 4_096  # characters that a row stores of ``before`` and of ``after``
MAX_ROWS = 500  # rows per query

AUDIT_LOG = sa.Table(
    "audit_log",
    METADATA,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("at", sa.BigInteger, nullable=False, index=True),  # epoch milliseconds
    sa.Column("actor", sa.String(96), nullable=False, index=True),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("target", sa.String(128), nullable=False, index=True),
    sa.Column("reason", sa.String(256), nullable=False),
    sa.Column("before", sa.Text, nullable=True),
    sa.Column("after", sa.Text, nullable=True),
    sa.Column("refused", sa.String(256), nullable=True),
)
_L = AUDIT_LOG.c
_ADD = sa.insert(AUDIT_LOG)
_ONE_AT_A_TIME = sa.select(sa.func.pg_advisory_xact_lock(0x7376_6366))  # any constant
NEWEST = 2**62  # above every id
BEGUN: Mapping[str, Json] = {"begun": True}  # ``after`` in the first of two rows
UNANSWERED: Mapping[str, Json] = {"outcome": "no answer: it may have been done"}
BROKEN_OFF: Mapping[str, Json] = {"outcome": "failed: part of it may have been done"}


@frozen
class AuditEntry:
    """A staff action about to be attempted: actor, action, target and reason."""

    actor: str
    action: str
    target: str = ""
    reason: str = ""


@define
class Trace:
    """Details that an action adds to its audit row.

    The details are the values before and after the action, and the name of the target.
    """

    before: Mapping[str, Json] | None = None
    after: Mapping[str, Json] | None = None
    target: str = ""


@frozen
class AuditQuery:
    """A filter for audit rows; a field that is an empty string or 0 matches every row."""

    actor: str = ""
    target: str = ""
    since: float = 0.0  # epoch seconds
    until: int = NEWEST  # only rows with a smaller id
    count: int = MAX_ROWS
    before: float | None = None  # epoch seconds; None: up to now


Act = Callable[[sa.Connection, Trace], T]


def audited(
    entry: AuditEntry, wall_clock: Callable[[], float], act: Act[T]
) -> Callable[[sa.Connection], T]:
    """Return a function that runs ``act`` in a transaction and adds an audit row.

    If ``act`` raises a refusal, the returned function raises RefusedWrite, which carries the audit
    row to record.
    """

    def whole(tx: sa.Connection) -> T:
        trace = Trace()
        try:
            done = act(tx, trace)
        except Refusal as why:
            reason = why.message or why.code or type(why).__name__
            why.recorded = True
            raise RefusedWrite(why, _ADD, _row(entry, wall_clock(), trace, reason)) from why
        tx.execute(_ADD, _row(entry, wall_clock(), trace, None))
        return done

    return whole


def add_row(
    tx: sa.Connection,
    entry: AuditEntry,
    at: float,
    refused: str | None = None,
    trace: Trace | None = None,
) -> None:
    """Add an audit row in a transaction that is already open."""
    tx.execute(_ADD, _row(entry, at, trace or Trace(), refused))


def rows(tx: sa.Connection, query: AuditQuery) -> list[dict[str, Any]]:
    """Return the matching audit rows, newest first, each as a dict from column name to value."""
    wanted = [_L.at >= int(query.since * 1000), _L.id < query.until]
    if query.before is not None:
        wanted.append(_L.at < int(query.before * 1000))
    if query.actor:
        wanted.append(sa.func.lower(_L.actor) == query.actor.lower())
    if query.target:
        wanted.append(sa.func.lower(_L.target) == query.target.lower())
    statement = sa.select(AUDIT_LOG).where(*wanted).order_by(_L.id.desc())
    return [row._asdict() for row in tx.execute(statement.limit(min(query.count, MAX_ROWS)))]


@frozen
class Audit:
    """Runs staff actions and writes an audit row for each."""

    ledger: Ledger
    wall_clock: Callable[[], float]

    async def write(self, entry: AuditEntry, act: Act[T], scope: Scope) -> T:
        """Run ``act(tx, trace)`` and return its result; a refusal is recorded and raised again."""
        return await write_or_record(self.ledger, audited(entry, self.wall_clock, act), scope)

    async def leave(
        self, entry: AuditEntry, refused: str | None, trace: Trace | None = None
    ) -> None:
        """Add an audit row in a new transaction, for an attempt that ran without a transaction."""

        def work(tx: sa.Connection) -> None:
            add_row(tx, entry, self.wall_clock(), refused, trace)

        await self.ledger.write(work, ACROSS)

    @shielded
    async def around(
        self, entry: AuditEntry, act: Callable[[Trace], Awaitable[T]], trace: Trace | None = None
    ) -> T:
        """Add an audit row, run ``act(trace)``, and add a second row; return the result.

        ``act`` is not a transaction. The first row says that the action has begun. If the metagame
        stops before the action ends, there is no second row. The second row has the result: done,
        refused, unanswered, or failed by an internal error. Errors are raised again.
        """
        trace = trace or Trace()
        await self.leave(entry, None, evolve(trace, after={**(trace.after or {}), **BEGUN}))
        try:
            done = await act(trace)
        except Refusal as why:
            why.recorded = True
            if isinstance(why, Unanswered):
                reason, trace.after = None, {**(trace.after or {}), **UNANSWERED}
            else:
                reason = why.message or why.code or type(why).__name__
            await self.leave(entry, reason, trace)
            raise
        except Exception:
            trace.after = {**(trace.after or {}), **BROKEN_OFF}
            await self.leave(entry, None, trace)
            raise
        await self.leave(entry, None, trace)
        return done

    async def with_file(self, entry: AuditEntry, act: Act[T]) -> T:
        """Add an audit row, run ``act(tx, trace)``, which changes a file, and add a second row.

        See ``around`` for the content of the two rows. If the process crashes after the file has
        changed, the first row remains. ``act`` may run again after a conflict. Metagames that share
        the database run only one such ``act`` at a time.
        """

        def work(tx: sa.Connection, trace: Trace) -> T:
            if tx.dialect.name == "postgresql":  # SQLite has only one writer
                tx.execute(_ONE_AT_A_TIME)
            return act(tx, trace)

        async def run(trace: Trace) -> T:
            return await self.ledger.write(lambda tx: work(tx, trace), ACROSS)

        return await self.around(entry, run)

    async def read_rows(self, query: AuditQuery) -> list[dict[str, Any]]:
        return await self.ledger.read_snapshot(lambda tx: rows(tx, query))


def _row(entry: AuditEntry, at: float, trace: Trace, refused: str | None) -> dict[str, Any]:
    return {
        "at": round(at * 1000),
        "actor": _cut("actor", entry.actor),
        "action": _cut("action", entry.action),
        "target": _cut("target", trace.target or entry.target),
        "reason": _cut("reason", entry.reason),
        "before": _shown(trace.before),
        "after": _shown(trace.after),
        "refused": None if refused is None else _cut("refused", refused),
    }


def _cut(column: str, text: str) -> str:
    return text.replace("\0", "?")[: LONGEST[column]]


def _shown(value: Mapping[str, Json] | None) -> str | None:
    if value is None:
        return None
    text = json.dump(dict(value)).decode().replace("\\u0000", "?")
    return text if len(text) <= MAX_SHOWN else json.dump({"tooLong": len(text)}).decode()
