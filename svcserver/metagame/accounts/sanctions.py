"""Bans and mutes: an account has at most one ban and at most one mute at a time."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.networks import BANNED, MUTED, HeldNetworks, SqlNetworks

FOREVER = 253_402_300_800  # epoch seconds: the year 10000
MAX_REASON, MAX_NOTE = 256, 1_024  # characters


class SanctionKind(StrEnum):
    """The kind of a sanction."""

    BAN = "ban"  # no log-in
    MUTE = "mute"  # no writing in chat


HELD: Mapping[SanctionKind, HeldNetworks] = {SanctionKind.BAN: BANNED, SanctionKind.MUTE: MUTED}


@frozen
class Sanction:
    """A ban or a mute, with times in epoch seconds; ``note`` is private.

    While the sanction runs, all players from ``networks`` are also banned or muted.
    """

    reason: str
    note: str
    made_by: str
    made_at: int
    ends_at: int
    networks: tuple[str, ...] = ()

    def holds(self, now: float) -> bool:
        """Return whether the sanction is still in force."""
        return now < self.ends_at


Held = tuple[AccountId, SanctionKind, Sanction]
"""A sanctioned account, the kind of sanction, and the sanction."""

SANCTIONS = sa.Table(
    "sanctions",
    METADATA,
    sa.Column("account_id", sa.String(64), sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("kind", sa.String(8), primary_key=True),
    sa.Column("reason", sa.String(MAX_REASON), nullable=False),
    sa.Column("note", sa.String(MAX_NOTE), nullable=False),
    sa.Column("made_by", sa.String(96), nullable=False),
    sa.Column("made_at", sa.BigInteger, nullable=False),
    sa.Column("ends_at", sa.BigInteger, nullable=False),
)
_S = SANCTIONS.c
_FIND = sa.select(SANCTIONS).where(
    _S.account_id == sa.bindparam("holder"), _S.kind == sa.bindparam("wanted")
)
_ALL = (
    sa.select(SANCTIONS)
    .where(_S.ends_at > sa.bindparam("now"))
    .where(
        sa.or_(
            _S.made_at < sa.bindparam("made"),
            (_S.made_at == sa.bindparam("made")) & (_S.account_id > sa.bindparam("holder")),
            (_S.made_at == sa.bindparam("made"))
            & (_S.account_id == sa.bindparam("holder"))
            & (_S.kind > sa.bindparam("wanted")),
        )
    )
    .order_by(_S.made_at.desc(), _S.account_id, _S.kind)
    .limit(sa.bindparam("count"))
)
_HOW_MANY = (
    sa.select(sa.func.count()).select_from(SANCTIONS).where(_S.ends_at > sa.bindparam("now"))
)
_ADD = sa.insert(SANCTIONS)
_DROP = sa.delete(SANCTIONS).where(
    _S.account_id == sa.bindparam("holder"), _S.kind == sa.bindparam("wanted")
)


@frozen
class SqlSanctions:
    """The sanctions in an open transaction."""

    tx: sa.Connection

    def find(self, account_id: AccountId, kind: SanctionKind) -> Sanction | None:
        """Return the account's latest sanction of that kind, even if it has ended."""
        row = self.tx.execute(_FIND, {"holder": account_id, "wanted": kind.value}).first()
        if row is None:
            return None
        held = HELD[kind].held_by(self.tx, [account_id])
        return _sanction(row, held.get(account_id, ()))

    def put(self, account_id: AccountId, kind: SanctionKind, sanction: Sanction) -> None:
        """Add a sanction, which replaces the previous sanction of its kind."""
        self.drop(account_id, kind)
        self.tx.execute(
            _ADD,
            {
                "account_id": account_id,
                "kind": kind.value,
                "reason": sanction.reason,
                "note": sanction.note,
                "made_by": sanction.made_by,
                "made_at": sanction.made_at,
                "ends_at": sanction.ends_at,
            },
        )
        if sanction.networks:
            HELD[kind].put(self.tx, account_id, sanction.networks, sanction.ends_at)

    def drop(self, account_id: AccountId, kind: SanctionKind) -> None:
        """Delete the account's sanction of that kind, if there is one."""
        self.tx.execute(_DROP, {"holder": account_id, "wanted": kind.value})
        HELD[kind].drop(self.tx, account_id)

    def networks_of(self, account_id: AccountId, now: float) -> tuple[str, ...]:
        return tuple(SqlNetworks(self.tx).networks_of(account_id, now))

    def how_many(self, now: float) -> int:
        """Return the number of current sanctions."""
        return int(self.tx.execute(_HOW_MANY, {"now": int(now)}).scalar_one())

    def running(self, now: float, count: int, after: Held | None = None) -> list[Held]:
        """Return up to ``count`` current sanctions, newest first.

        If ``after`` is given, the list begins with the sanction that follows ``after``.
        """
        values = {"now": int(now), "count": count, "made": FOREVER, "holder": "", "wanted": ""}
        if after is not None:
            holder, kind, sanction = after
            values |= {"made": sanction.made_at, "holder": holder, "wanted": kind.value}
        rows = self.tx.execute(_ALL, values).all()
        of: dict[SanctionKind, list[AccountId]] = {kind: [] for kind in SanctionKind}
        for row in rows:
            of[SanctionKind(row.kind)].append(row.account_id)
        held = {kind: HELD[kind].held_by(self.tx, accounts) for kind, accounts in of.items()}
        return [
            (
                row.account_id,
                kind := SanctionKind(row.kind),
                _sanction(row, held[kind].get(row.account_id, ())),
            )
            for row in rows
        ]


def _sanction(row: Any, networks: tuple[str, ...]) -> Sanction:
    return Sanction(row.reason, row.note, row.made_by, row.made_at, row.ends_at, networks)
