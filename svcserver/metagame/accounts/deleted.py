"""Deleted accounts, for as long as tokens of theirs may be shown."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, String, Table, bindparam, insert, select

from svcserver.db.tables import METADATA
from svcserver.kernel.ids import AccountId

DELETED_ACCOUNTS = Table(
    "deleted_accounts",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("not_before", BigInteger, nullable=False, index=True),  # epoch seconds
)
_ADD = insert(DELETED_ACCOUNTS)
_EPOCHS = select(DELETED_ACCOUNTS).where(DELETED_ACCOUNTS.c.not_before > bindparam("since"))


def bury(tx: Connection, account_id: AccountId, not_before: int) -> None:
    """Void every token that the account ever had."""
    tx.execute(_ADD, {"account_id": account_id, "not_before": not_before})


def buried(tx: Connection, since: int) -> dict[AccountId, int]:
    """The epochs of deleted accounts that are later than ``since`` (epoch seconds)."""
    return {row.account_id: row.not_before for row in tx.execute(_EPOCHS, {"since": since})}
