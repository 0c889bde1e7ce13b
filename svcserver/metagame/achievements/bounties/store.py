"""The tables of bounty boards, and the SQL that reads and writes a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    LargeBinary,
    String,
    Table,
    bindparam,
    delete,
    select,
)

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.metagame.achievements.bounties.rules import Bounty

BOUNTIES = Table(
    "bounties",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("bounty_id", String(128), primary_key=True),
    Column("slot_index", BigInteger, nullable=True),
    Column("version", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),  # the element as sent
)
BOUNTY_DRAFTS = Table(
    "bounty_drafts",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
_B, _D = BOUNTIES.c, BOUNTY_DRAFTS.c
_ALL = select(BOUNTIES).where(_B.account_id == bindparam("account"))
_PUT = Upsert(BOUNTIES)
_DROP = delete(BOUNTIES).where(
    _B.account_id == bindparam("account"), _B.bounty_id == bindparam("wanted")
)
_DRAFT = select(_D.data).where(_D.account_id == bindparam("account"))
_PUT_DRAFT = Upsert(BOUNTY_DRAFTS)


@frozen
class SqlBounties:
    """The tables of bounty boards, within one transaction."""

    tx: Connection

    def bounties(self, account_id: AccountId) -> dict[str, Bounty]:
        rows = self.tx.execute(_ALL, {"account": account_id})
        return {
            row.bounty_id: Bounty(row.bounty_id, row.slot_index, row.version, row.data)
            for row in rows
        }

    def replace(
        self, account_id: AccountId, before: Mapping[str, Bounty], after: Mapping[str, Bounty]
    ) -> None:
        """Write what has changed between the two states of a board."""
        self.drop(account_id, [name for name in before if name not in after])
        rows = [
            {
                "account_id": account_id,
                "bounty_id": bounty.id,
                "slot_index": bounty.slot,
                "version": bounty.version,
                "data": bounty.data,
            }
            for name, bounty in after.items()
            if before.get(name) is not bounty
        ]
        _PUT.put(self.tx, rows)

    def drop(self, account_id: AccountId, bounty_ids: Sequence[str]) -> None:
        if bounty_ids:
            values = [{"account": account_id, "wanted": bounty_id} for bounty_id in bounty_ids]
            self.tx.execute(_DROP, values)

    def draft(self, account_id: AccountId) -> bytes | None:
        draft: bytes | None = self.tx.execute(_DRAFT, {"account": account_id}).scalar()
        return draft

    def put_draft(self, account_id: AccountId, draft: bytes) -> None:
        _PUT_DRAFT.put(self.tx, [{"account_id": account_id, "data": draft}])
