"""The progression event log: a row for every admin or game-server write. Spec: 1 §6.3.

A write and its row share one transaction; a refused write stores only the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from attrs import field, frozen

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.db.refused import RefusedWrite, write_or_record
from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Missing, Refusal
from svcserver.metagame.accounts import audit
from svcserver.metagame.accounts.data import Allowance
from svcserver.metagame.accounts.store import ACCOUNTS, SqlAccounts

MAX_KEPT = 256 * 1024  # bytes of a body or a reply that a row stores

PROGRESSION_EVENTS = sa.Table(
    "progression_events",
    METADATA,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("account_id", sa.String(64), nullable=False, index=True),
    sa.Column("caller", sa.String(96), nullable=False),
    sa.Column("route", sa.String(256), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("reply", sa.LargeBinary, nullable=False),
    sa.Column("note", sa.String(1024), nullable=False),
)
_ADD = sa.insert(PROGRESSION_EVENTS)
_KNOWN = sa.select(ACCOUNTS.c.id).where(ACCOUNTS.c.id == sa.bindparam("wanted"))

T = TypeVar("T")


class WriteNotes(list[str]):
    """The notes to store in a write's row of the event log.

    If a staff member makes the write, ``trace`` adds details to the row of the audit log.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trace = audit.Trace()


Work = Callable[[sa.Connection, WriteNotes], T]


def is_known(tx: sa.Connection, account_id: AccountId) -> bool:
    """Return whether the account exists.

    The transaction has the scope ``OneAccount``, so the account's row is locked already.
    """
    return "\0" not in account_id and bool(tx.execute(_KNOWN, {"wanted": account_id}).first())


def known(tx: sa.Connection, account_id: AccountId) -> None:
    """Raise Missing if the account does not exist."""
    if not is_known(tx, account_id):
        raise Missing("no such account", code="not_found")


@frozen
class EventEntry(Generic[T]):
    """The data about a write for the event log; ``show(result)`` returns the reply."""

    account_id: AccountId
    caller: str
    route: str
    body: bytes = field(repr=False)
    by_admin: bool
    show: Callable[[T], Any] = field(repr=False)  # returns bytes, or an object to serialise as JSON
    staff: str = ""  # the admin's name
    action: str = ""  # the name in the audit log, if staff may send the request
    reason: str = ""  # the reason that the admin gave


@frozen
class EventLog:
    """Executes writes for accounts, and records each write with its reply or error."""

    ledger: Ledger
    wall_clock: Callable[[], float]
    allowance: Allowance

    async def write(self, entry: EventEntry[T], work: Work[T]) -> T:
        """Run ``work(tx, notes)`` for the account, record the write, and return the result."""
        done, _ = await self.noted(entry, work)
        return done

    async def noted(self, entry: EventEntry[T], work: Work[T]) -> tuple[T, list[str]]:
        """Run ``work`` like ``write``; return its result and the notes that it added.

        ``work`` runs in another thread, maybe twice, so only the caller may log the notes.
        """
        if not entry.by_admin:
            self.allowance.spend(entry.account_id, len(entry.body))

        def whole(tx: sa.Connection) -> tuple[T, list[str]]:
            notes = WriteNotes()
            try:
                known(tx, entry.account_id)
                done = work(tx, notes)
            except Refusal as why:
                row = self._row(entry, why.status, b"", [*notes, why.message])
                raise RefusedWrite(why, _ADD, row) from why
            tx.execute(_ADD, self._row(entry, 200, _bytes(entry.show(done)), notes))
            if entry.by_admin:
                audit.add_row(tx, _audited(tx, entry), self.wall_clock(), trace=notes.trace)
            return done, notes

        return await write_or_record(self.ledger, whole, OneAccount(entry.account_id))

    def _row(
        self, entry: EventEntry[Any], status: int, reply: bytes, notes: list[str]
    ) -> dict[str, Any]:
        return {
            "at": round(self.wall_clock() * 1000),
            "account_id": _clean(entry.account_id, 64),
            "caller": entry.caller,
            "route": _clean(entry.route, 256),
            "body": entry.body[:MAX_KEPT],
            "status": status,
            "reply": reply[:MAX_KEPT],
            "note": _clean("; ".join(notes), 1024),
        }


def _audited(tx: sa.Connection, entry: EventEntry[Any]) -> audit.AuditEntry:
    """Return the audit-log entry of a write by a staff member."""
    account = SqlAccounts(tx).find(entry.account_id)
    target = entry.account_id if account is None else account.username
    name = entry.staff or entry.caller
    return audit.AuditEntry(name, entry.action or entry.route, target, entry.reason)


def _bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dump(body)


def _clean(text: str, longest: int) -> str:
    return text.replace("\0", "?")[:longest]
