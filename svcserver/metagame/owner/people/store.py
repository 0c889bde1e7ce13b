"""When accounts were last seen, and lists of accounts sorted by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Select,
    String,
    Table,
    bindparam,
    case,
    func,
    or_,
    select,
    update,
)

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.deleted import bury
from svcserver.metagame.accounts.rules import Account, Ended
from svcserver.metagame.accounts.sanctions import SANCTIONS, Kind, SqlSanctions
from svcserver.metagame.accounts.store import ACCOUNT_KEYS, ACCOUNTS, SqlAccounts, fold
from svcserver.metagame.owner.people.data import erase
from svcserver.metagame.owner.people.rules import (
    Listed,
    Order,
    Person,
)

ACCOUNT_SEEN = Table(
    "account_seen",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("at", BigInteger, nullable=False, index=True),  # epoch seconds
)
_PUT_SEEN = Upsert.into(ACCOUNT_SEEN)
_PATTERN, _SKIP, _COUNT = "pattern", "skip", "count"
_A, _SEEN = ACCOUNTS.c, ACCOUNT_SEEN.c.at
_ROLE = case(
    (_A.is_admin != 0, 0),
    (_A.staff_role == "moderator", 1),
    (_A.staff_role == "helper", 2),
    else_=3,
)
_NAME = func.lower(_A.username)
_ORDERS = {
    Order.NAME: (_NAME, _A.id),
    Order.SEEN: (_SEEN.is_(None), _SEEN.desc(), _NAME, _A.id),
    Order.ROLE: (_ROLE, _NAME, _A.id),
}


def _list(order: Order) -> Select[tuple[str, int | None]]:
    found = select(_A.id, _SEEN).outerjoin(ACCOUNT_SEEN, ACCOUNT_SEEN.c.account_id == _A.id)
    like = {"escape": "\\"}
    wanted = or_(
        bindparam(_PATTERN, type_=String) == "",
        _NAME.like(bindparam(_PATTERN, type_=String), **like),
        func.lower(_A.id).like(bindparam(_PATTERN, type_=String), **like),
    )
    return (
        found.where(wanted)
        .order_by(*_ORDERS[order])
        .limit(bindparam(_COUNT))
        .offset(bindparam(_SKIP))
    )


_LISTS = {order: _list(order) for order in Order}
_SANCTIONED = select(SANCTIONS.c.account_id, SANCTIONS.c.kind).where(
    SANCTIONS.c.account_id.in_(bindparam("ids", expanding=True)),
    SANCTIONS.c.ends_at > bindparam("now"),
)
_ADD_NOTES = (
    update(ACCOUNTS).where(_A.id == bindparam("wanted")).values(notes=_A.notes + bindparam("more"))
)
_ONE = (
    select(_A.created_at, _SEEN, func.min(ACCOUNT_KEYS.c.key_hash).label("key_hash"))
    .outerjoin(ACCOUNT_SEEN, ACCOUNT_SEEN.c.account_id == _A.id)
    .outerjoin(ACCOUNT_KEYS, ACCOUNT_KEYS.c.account_id == _A.id)
    .where(_A.id == bindparam("wanted"))
    .group_by(_A.id, _A.created_at, _SEEN)
)


@frozen
class SqlPeople:
    """What the pages about people read, in an open transaction."""

    tx: Connection

    def keep_seen(self, seen: Mapping[AccountId, int]) -> None:
        """Note when accounts were seen (epoch seconds); one deleted meanwhile leaves no row."""
        there = sorted(SqlAccounts(self.tx).find_all(seen))
        if there:
            _PUT_SEEN.put(self.tx, [{"account_id": one, "at": seen[one]} for one in there])

    def add_notes(self, account_id: AccountId, more: int) -> None:
        """Add to an account's notes; a negative number takes away."""
        self.tx.execute(_ADD_NOTES, {"wanted": account_id, "more": more})

    def listed(self, order: Order, text: str, skip: int, count: int, now: float) -> list[Listed]:
        """``count`` accounts after ``skip`` whose name or id holds ``text``."""
        plain = fold(text)
        for special in ("\\", "%", "_"):
            plain = plain.replace(special, "\\" + special)
        sent = {_PATTERN: f"%{plain}%" if plain else "", _SKIP: skip, _COUNT: count}
        seen = {row.id: row.at for row in self.tx.execute(_LISTS[order], sent)}
        accounts = SqlAccounts(self.tx).find_all(seen)
        held = self._sanctioned(seen, now)
        return [
            Listed(accounts[one], at, held.get(one, frozenset()))
            for one, at in seen.items()
            if one in accounts
        ]

    def person(self, account: Account, now: float) -> Person:
        """What else is kept of an account."""
        row = self.tx.execute(_ONE, {"wanted": account.id}).one()
        found = {kind: SqlSanctions(self.tx).find(account.id, kind) for kind in Kind}
        held = {kind: one for kind, one in found.items() if one is not None and one.holds(now)}
        return Person(account, row.created_at, row.at, row.key_hash, held)

    def _sanctioned(self, ids: Iterable[AccountId], now: float) -> dict[AccountId, frozenset[Kind]]:
        found: dict[AccountId, frozenset[Kind]] = {}
        for row in self.tx.execute(_SANCTIONED, {"ids": [*ids], "now": int(now)}):
            found[row.account_id] = found.get(row.account_id, frozenset()) | {Kind(row.kind)}
        return found


def remove(tx: Connection, ended: Ended) -> int:
    """Delete an account whose sessions end with all that is its own; returns how many rows."""
    bury(tx, ended.account_id, ended.not_before)
    return erase(tx, ended.account_id)
