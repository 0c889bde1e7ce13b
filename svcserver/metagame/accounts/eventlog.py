"""The progression event log: a row for every admin or game-server write. Spec: 1 §6.3.

A write and its row are in one transaction; a refused write leaves only the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    insert,
    select,
)

from svcserver.db.ledger import Ledger
from svcserver.db.refused import Refused, write_or_record
from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Missing, Refusal
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts.allowance import Allowance
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.rows import Call
from svcserver.web.routes import Answer, logged_path

MAX_KEPT = 256 * 1024  # bytes of a body or a reply that a row keeps

PROGRESSION_EVENTS = Table(
    "progression_events",
    METADATA,
    Column("id", ROW_ID, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("account_id", String(64), nullable=False, index=True),
    Column("caller", String(96), nullable=False),
    Column("route", String(256), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("status", Integer, nullable=False),
    Column("reply", LargeBinary, nullable=False),
    Column("note", String(1024), nullable=False),
)
_ADD = insert(PROGRESSION_EVENTS)
_LOCK = select(ACCOUNTS.c.id).where(ACCOUNTS.c.id == bindparam("wanted")).with_for_update()

Work = Callable[[Connection, list[str]], Answer]


def holds(tx: Connection, account_id: AccountId) -> bool:
    """Lock the account's row until the transaction ends, so that its writes are serialized.

    False for an unknown account.
    """
    return "\0" not in account_id and tx.execute(_LOCK, {"wanted": account_id}).first() is not None


def hold(tx: Connection, account_id: AccountId) -> None:
    """As ``holds``, but raises Missing for an unknown account."""
    if not holds(tx, account_id):
        raise Missing("no such account", code="not_found")


@frozen
class EventLog:
    """Runs writes for an account and records each with its answer or refusal."""

    ledger: Ledger
    now: Callable[[], float]
    acting: Acting
    allowance: Allowance

    async def write(self, call: Call, named: AccountId, work: Work) -> Answer:
        """Run ``work(tx, notes)`` for an account; returns its answer or raises its refusal."""
        said, _ = await self.noted(call, named, work)
        return said

    async def noted(self, call: Call, named: AccountId, work: Work) -> tuple[Answer, list[str]]:
        """As ``write``, and returns the notes, which the caller may log.

        ``work`` must not log: it runs in another thread, and may run twice.
        """
        account_id = self.acting.writes(call, named)
        if not call.caller.admin:
            self.allowance.spend(account_id, len(call.request.body))

        def whole(tx: Connection) -> tuple[Answer, list[str]]:
            notes: list[str] = []
            try:
                hold(tx, account_id)
                said = work(tx, notes)
            except Refusal as why:
                row = self._row(call, account_id, why, [*notes, why.message])
                raise Refused(why, _ADD, row) from why
            tx.execute(_ADD, self._row(call, account_id, said, notes))
            return said, notes

        return await write_or_record(self.ledger, whole, account_id)

    def _row(
        self, call: Call, account_id: AccountId, said: Answer | Refusal, notes: list[str]
    ) -> dict[str, Any]:
        reply = b"" if isinstance(said, Refusal) or said.body is None else _bytes(said.body)
        return {
            "at": round(self.now() * 1000),
            "account_id": _clean(account_id, 64),
            "caller": _caller(call),
            "route": _clean(f"{call.request.method} {logged_path(call.request.path)}", 256),
            "body": call.request.body[:MAX_KEPT],
            "status": said.status,
            "reply": reply[:MAX_KEPT],
            "note": _clean("; ".join(notes), 1024),
        }


def _bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dump(body)


def _clean(text: str, longest: int) -> str:
    return text.replace("\0", "?")[:longest]


def _caller(call: Call) -> str:
    account = call.caller.account or ""
    if call.caller.admin:
        return f"admin {account}"
    return f"game server {account}".strip() if call.caller.game_server else f"player {account}"
