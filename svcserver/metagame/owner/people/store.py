"""The times at which players were last seen, and the queries for lists of accounts."""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.rules import Account, EndedSessions
from svcserver.metagame.accounts.sanctions import SANCTIONS, SanctionKind, SqlSanctions
from svcserver.metagame.accounts.store import ACCOUNT_KEYS, ACCOUNTS, SqlAccounts, bury, fold
from svcserver.metagame.owner.people import rules
from svcserver.metagame.owner.people.data import erase

ACCOUNT_SEEN = sa.Table(
    "account_seen",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False, index=True),  # epoch seconds
)
_PUT_SEEN = Upsert(ACCOUNT_SEEN)
_PATTERN, _SKIP, _COUNT = "pattern", "skip", "count"
_A, _LAST_SEEN = ACCOUNTS.c, ACCOUNT_SEEN.c.at
_ROLE = sa.case(
    (_A.is_admin != 0, 0),
    (_A.staff_role == "moderator", 1),
    (_A.staff_role == "helper", 2),
    else_=3,
)
_NAME = sa.func.lower(_A.username)
_ORDERS = {
    rules.SortOrder.NAME: (_NAME, _A.id),
    rules.SortOrder.LAST_SEEN: (_LAST_SEEN.is_(None), _LAST_SEEN.desc(), _NAME, _A.id),
    rules.SortOrder.ROLE: (_ROLE, _NAME, _A.id),
}


def _sanctioned_with(kind: SanctionKind) -> sa.ColumnElement[bool]:
    held = (SANCTIONS.c.kind == kind.value, SANCTIONS.c.ends_at > sa.bindparam("now"))
    return _A.id.in_(sa.select(SANCTIONS.c.account_id).where(*held))


_FILTERS: Mapping[rules.AccountFilter, sa.ColumnElement[bool]] = {
    rules.AccountFilter.ALL: sa.true(),
    rules.AccountFilter.STAFF: _ROLE < 3,
    rules.AccountFilter.BANNED: _sanctioned_with(SanctionKind.BAN),
    rules.AccountFilter.MUTED: _sanctioned_with(SanctionKind.MUTE),
}


def _list(order: rules.SortOrder, only: rules.AccountFilter) -> sa.Select[tuple[str, int | None]]:
    accounts = sa.select(_A.id, _LAST_SEEN).outerjoin(
        ACCOUNT_SEEN, ACCOUNT_SEEN.c.account_id == _A.id
    )
    like = {"escape": "\\"}
    wanted = sa.or_(
        sa.bindparam(_PATTERN, type_=sa.String) == "",
        _NAME.like(sa.bindparam(_PATTERN, type_=sa.String), **like),
        sa.func.lower(_A.id).like(sa.bindparam(_PATTERN, type_=sa.String), **like),
    )
    return (
        accounts.where(wanted, _FILTERS[only])
        .order_by(*_ORDERS[order])
        .limit(sa.bindparam(_COUNT))
        .offset(sa.bindparam(_SKIP))
    )


_LISTS = {
    (order, only): _list(order, only) for order in rules.SortOrder for only in rules.AccountFilter
}
_SANCTIONED = sa.select(SANCTIONS.c.account_id, SANCTIONS.c.kind).where(
    SANCTIONS.c.account_id.in_(sa.bindparam("ids", expanding=True)),
    SANCTIONS.c.ends_at > sa.bindparam("now"),
)
_ADD_NOTES = (
    sa.update(ACCOUNTS)
    .where(_A.id == sa.bindparam("wanted"))
    .values(notes=_A.notes + sa.bindparam("more"))
)
_DETAILS = (
    sa.select(_A.created_at, _LAST_SEEN, sa.func.min(ACCOUNT_KEYS.c.key_hash).label("key_hash"))
    .outerjoin(ACCOUNT_SEEN, ACCOUNT_SEEN.c.account_id == _A.id)
    .outerjoin(ACCOUNT_KEYS, ACCOUNT_KEYS.c.account_id == _A.id)
    .where(_A.id == sa.bindparam("wanted"))
    .group_by(_A.id, _A.created_at, _LAST_SEEN)
)


@frozen
class SqlPeople:
    """The queries of the pages about accounts, within one open transaction."""

    tx: sa.Connection

    def keep_seen(self, times: Mapping[AccountId, int]) -> None:
        """Store when each account was last seen (epoch seconds); skip deleted accounts."""
        there = sorted(SqlAccounts(self.tx).find_all(times))
        if there:
            _PUT_SEEN.put(
                self.tx,
                [{"account_id": account_id, "at": times[account_id]} for account_id in there],
            )

    def add_notes(self, account_id: AccountId, more: int) -> None:
        """Add ``more`` to an account's notes (the main currency); ``more`` may be negative."""
        self.tx.execute(_ADD_NOTES, {"wanted": account_id, "more": more})

    def listed(
        self,
        order: rules.SortOrder,
        only: rules.AccountFilter,
        text: str,
        skip: int,
        count: int,
        now: float,
    ) -> list[rules.ListedAccount]:
        """Return the accounts that pass the filter ``only`` and whose name or id contains ``text``.

        The first ``skip`` accounts are left out; at most ``count`` are returned.
        """
        plain = fold(text)
        for special in ("\\", "%", "_"):
            plain = plain.replace(special, "\\" + special)
        sent: dict[str, str | int] = {
            _PATTERN: f"%{plain}%" if plain else "",
            _SKIP: skip,
            _COUNT: count,
        }
        if only in (rules.AccountFilter.BANNED, rules.AccountFilter.MUTED):
            sent["now"] = int(now)
        times = {row.id: row.at for row in self.tx.execute(_LISTS[order, only], sent)}
        accounts = SqlAccounts(self.tx).find_all(times)
        held = self._sanctioned(times, now)
        return [
            rules.ListedAccount(accounts[account_id], at, held.get(account_id, frozenset()))
            for account_id, at in times.items()
            if account_id in accounts
        ]

    def person(self, account: Account, now: float) -> rules.AccountDetails:
        """Return the details of an account."""
        row = self.tx.execute(_DETAILS, {"wanted": account.id}).one()
        sanctions = {kind: SqlSanctions(self.tx).find(account.id, kind) for kind in SanctionKind}
        held = {
            kind: sanction
            for kind, sanction in sanctions.items()
            if sanction is not None and sanction.holds(now)
        }
        return rules.AccountDetails(account, row.created_at, row.at, row.key_hash, held)

    def _sanctioned(
        self, ids: Iterable[AccountId], now: float
    ) -> dict[AccountId, frozenset[SanctionKind]]:
        kinds: dict[AccountId, frozenset[SanctionKind]] = {}
        for row in self.tx.execute(_SANCTIONED, {"ids": [*ids], "now": int(now)}):
            kinds[row.account_id] = kinds.get(row.account_id, frozenset()) | {
                SanctionKind(row.kind)
            }
        return kinds


def remove(tx: sa.Connection, ended: EndedSessions) -> int:
    """Delete all rows of an account, and invalidate its tokens; return the number of rows.

    End the account's sessions before you call this function.
    """
    bury(tx, ended.account_id, ended.not_before)
    return erase(tx, ended.account_id)
