"""The search for accounts by a part of their name or id."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, or_, select

from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.store import ACCOUNT_KEYS, ACCOUNTS, fold
from svcserver.metagame.achievements.entitlements.store import ENTITLEMENTS

FOUND = 50  # accounts that a search lists
MOST_NAMES = 500  # of entitlements
_PATTERN: str = "pattern"
_FIRST_KEY = (
    select(func.min(ACCOUNT_KEYS.c.key_hash))
    .where(ACCOUNT_KEYS.c.account_id == ACCOUNTS.c.id)
    .scalar_subquery()
)
_SEARCH = (
    select(ACCOUNTS.c.id, ACCOUNTS.c.username, ACCOUNTS.c.is_admin, _FIRST_KEY.label("key_hash"))
    .where(
        or_(
            func.lower(ACCOUNTS.c.username).like(bindparam(_PATTERN), escape="\\"),
            func.lower(ACCOUNTS.c.id).like(bindparam(_PATTERN), escape="\\"),
        )
    )
    .order_by(ACCOUNTS.c.username, ACCOUNTS.c.id)
    .limit(bindparam("count"))
)
_ENTITLEMENTS = (
    select(ENTITLEMENTS.c.name).distinct().order_by(ENTITLEMENTS.c.name).limit(bindparam("count"))
)


class Found(NamedTuple):
    """An account, with the hash of its key, if it has one."""

    id: AccountId
    name: str
    is_admin: bool
    key_hash: str | None


def search(tx: Connection, text: str, count: int) -> list[Found]:
    """Accounts whose name or id contains ``text``, by name."""
    plain = fold(text)
    for special in ("\\", "%", "_"):
        plain = plain.replace(special, "\\" + special)
    rows = tx.execute(_SEARCH, {_PATTERN: f"%{plain}%", "count": count})
    return [
        Found(AccountId(row.id), row.username, bool(row.is_admin), row.key_hash) for row in rows
    ]


def known_entitlements(tx: Connection) -> list[str]:
    """The names of all entitlements that some account has had, by name."""
    return list(tx.execute(_ENTITLEMENTS, {"count": MOST_NAMES}).scalars())
