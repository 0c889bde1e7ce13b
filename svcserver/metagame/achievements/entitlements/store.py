"""The table of entitlements; revoked and expired rows stay."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    String,
    Table,
    bindparam,
    select,
)

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.metagame.achievements.entitlements import rules
from svcserver.metagame.achievements.entitlements.rules import Entitlement

ENTITLEMENTS = Table(
    "entitlements",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("duration", Float(53), nullable=False),  # hours
    Column("activated_at", BigInteger, nullable=False),  # epoch milliseconds
    Column("revoked", Integer, nullable=False),
    Column("source", String(256), nullable=False),
)
_E = ENTITLEMENTS.c
_ALL = select(ENTITLEMENTS).where(_E.account_id == bindparam("account"))
_PUT = Upsert.into(ENTITLEMENTS)


@frozen
class SqlEntitlements:
    """``rules.Entitlements`` in an open transaction; ``defaults`` are owned before first use."""

    tx: Connection
    defaults: tuple[str, ...] = ()

    def all(self, account_id: AccountId) -> dict[str, Entitlement]:
        """The account's entitlements by name, in force or not."""
        rows = self.tx.execute(_ALL, {"account": account_id})
        return {
            row.name: Entitlement(
                row.name, row.duration, row.activated_at, row.source, bool(row.revoked)
            )
            for row in rows
        }

    def keep(self, account_id: AccountId, one: Entitlement) -> None:
        """Update the row of that name, or insert it."""
        row = {
            "account_id": account_id,
            "name": one.name,
            "duration": one.duration,
            "activated_at": one.activated_at,
            "revoked": int(one.revoked),
            "source": one.source[:256],
        }
        _PUT.put(self.tx, [row])

    def active(self, account_id: AccountId, now: float) -> set[str]:
        """The names in force at ``now`` (epoch seconds)."""
        held, at = self.all(account_id), round(now * 1000)
        fresh = rules.missing_defaults(held, self.defaults)
        return {one.name for one in rules.active(held, at)} | set(fresh)

    def grant(
        self, account_id: AccountId, entitlement: str, duration: float, source: str, now: float
    ) -> None:
        """Grant ``duration`` hours (0 for ever)."""
        grant(self.tx, account_id, entitlement, duration, source, now)


def grant(
    tx: Connection,
    account_id: AccountId,
    entitlement: str,
    duration: float,
    source: str,
    now: float,
) -> None:
    """Grant ``duration`` hours (0 for ever) at ``now`` (epoch seconds).

    The caller's transaction is of that account alone (``OneAccount``).
    """
    entitlements = SqlEntitlements(tx)
    fresh = Entitlement(entitlement, duration, round(now * 1000), source)
    before = entitlements.all(account_id).get(entitlement)
    entitlements.keep(account_id, rules.granted(before, fresh))


def listing(
    tx: Connection, account_id: AccountId, defaults: tuple[str, ...], now: float
) -> list[Entitlement]:
    """Those in force, with the account's defaults stored at first use; ``now`` in epoch seconds."""
    at = round(now * 1000)
    return rules.active(rules.add_defaults(SqlEntitlements(tx), account_id, defaults, at), at)
