"""The table of cooldowns; dates are stored as sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from sqlalchemy import Column, Connection, String, Table, bindparam, delete, select

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId

COOLDOWNS = Table(
    "cooldowns",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("cooldown_id", String(128), primary_key=True),
    Column("started", String(64), nullable=False),  # ISO text
)
_C = COOLDOWNS.c
_ALL = select(_C.cooldown_id, _C.started).where(_C.account_id == bindparam("account"))
_DROP = delete(COOLDOWNS).where(
    _C.account_id == bindparam("account"), _C.cooldown_id == bindparam("wanted")
)
_PUT = Upsert.into(COOLDOWNS)


@frozen
class SqlCooldowns:
    """``rules.Cooldowns`` on an open transaction."""

    tx: Connection

    def all(self, account_id: AccountId) -> dict[str, str]:
        """When each began, by id, in the order of ids."""
        rows = self.tx.execute(_ALL, {"account": account_id})
        return dict(sorted((row.cooldown_id, row.started) for row in rows))

    def keep(self, account_id: AccountId, started: Mapping[str, str]) -> None:
        rows = [
            {"account_id": account_id, "cooldown_id": name, "started": date}
            for name, date in started.items()
        ]
        _PUT.put(self.tx, rows)

    def drop(self, account_id: AccountId, names: Sequence[str]) -> None:
        if names:
            self.tx.execute(_DROP, [{"account": account_id, "wanted": one} for one in names])
