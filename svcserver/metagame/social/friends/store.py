"""The tables of friendships and blocks; a friendship has one row, with the lower id first."""

from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa
from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.db.ledger import Ledger
from svcserver.db.tables import ACCOUNT, METADATA
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.social.friends.rules import ACCEPTED, PENDING, Friendship, Load

Also = Callable[[sa.Connection, AccountId, AccountId], None]
"""A function of another feature, which runs in the transaction that blocks or unfriends."""

FRIENDSHIPS = sa.Table(
    "friendships",
    METADATA,
    sa.Column("account_low", sa.String(64), primary_key=True, info=ACCOUNT),
    sa.Column("account_high", sa.String(64), primary_key=True, index=True, info=ACCOUNT),
    sa.Column("asked_by", sa.String(64), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("accepted_at", sa.BigInteger, nullable=True),  # not stored before migration 0019
)
BLOCKS = sa.Table(
    "blocks",
    METADATA,
    sa.Column("blocker", sa.String(64), primary_key=True, info=ACCOUNT),
    sa.Column("blocked", sa.String(64), primary_key=True, index=True, info=ACCOUNT),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)

_F, _B = FRIENDSHIPS.c, BLOCKS.c
_PAIR = (_F.account_low == sa.bindparam("low"), _F.account_high == sa.bindparam("high"))
_BETWEEN = sa.select(FRIENDSHIPS).where(*_PAIR)
_OF = sa.union_all(
    sa.select(FRIENDSHIPS).where(_F.account_low == sa.bindparam("me")),
    sa.select(FRIENDSHIPS).where(_F.account_high == sa.bindparam("me")),
)
_ADD = sa.insert(FRIENDSHIPS)
_ACCEPT = (
    sa.update(FRIENDSHIPS).where(*_PAIR).values(status=ACCEPTED, accepted_at=sa.bindparam("at"))
)
_REMOVE = sa.delete(FRIENDSHIPS).where(*_PAIR)
_MINE = (_B.blocker == sa.bindparam("me")) & (_B.blocked == sa.bindparam("other"))
_THEIRS = (_B.blocker == sa.bindparam("other")) & (_B.blocked == sa.bindparam("me"))
_BLOCKED_BETWEEN = sa.select(sa.func.count()).select_from(BLOCKS).where(sa.or_(_MINE, _THEIRS))
_BLOCKS_OF = (
    sa.select(_B.blocked)
    .where(_B.blocker == sa.bindparam("me"))
    .order_by(_B.created_at, _B.blocked)
)
_BLOCKED_EITHER_WAY = sa.union_all(
    sa.select(_B.blocked.label("other")).where(
        _B.blocker == sa.bindparam("me"), _B.blocked.in_(sa.bindparam("others", expanding=True))
    ),
    sa.select(_B.blocker.label("other")).where(
        _B.blocked == sa.bindparam("me"), _B.blocker.in_(sa.bindparam("others", expanding=True))
    ),
)
_BLOCK = sa.insert(BLOCKS)
_UNBLOCK = sa.delete(BLOCKS).where(_MINE)


@frozen
class SqlFriends:
    """The friendships and blocks in an open transaction; implements ``rules.Friends``."""

    tx: sa.Connection

    def exists(self, account_id: AccountId) -> bool:
        return SqlAccounts(self.tx).find(account_id) is not None

    def blocked_between(self, first: AccountId, second: AccountId) -> bool:
        """Return whether one of the two accounts has blocked the other."""
        return bool(self.tx.execute(_BLOCKED_BETWEEN, {"me": first, "other": second}).scalar())

    def blocked(self, me: AccountId, others: Iterable[AccountId]) -> set[AccountId]:
        """Return those of ``others`` who blocked ``me`` or whom ``me`` blocked.

        ``others`` has a few hundred accounts at most.
        """
        wanted = list(dict.fromkeys(others))
        if not wanted:
            return set()
        return set(self.tx.execute(_BLOCKED_EITHER_WAY, {"me": me, "others": wanted}).scalars())

    def between(self, first: AccountId, second: AccountId) -> Friendship | None:
        """Return the request or friendship between the two accounts."""
        row = self.tx.execute(_BETWEEN, _pair(first, second)).first()
        return None if row is None else _friendship(row)

    def friendships_of(self, me: AccountId) -> list[Friendship]:
        """Return the account's requests and friendships, oldest first."""
        friendships = [_friendship(row) for row in self.tx.execute(_OF, {"me": me})]
        return sorted(
            friendships,
            key=lambda friendship: (
                friendship.created_at,
                friendship.asked_by,
                friendship.recipient,
            ),
        )

    def friends(self, me: AccountId) -> set[AccountId]:
        """Return the ids of the account's friends; open requests do not count."""
        return {
            friendship.recipient if friendship.asked_by == me else friendship.asked_by
            for friendship in self.friendships_of(me)
            if friendship.status == ACCEPTED
        }

    def load(self, account_id: AccountId) -> Load:
        friendships = self.friendships_of(account_id)
        return Load(
            len(friendships),
            sum(friendship.status == ACCEPTED for friendship in friendships),
            sum(
                friendship.status == PENDING and friendship.asked_by == account_id
                for friendship in friendships
            ),
        )

    def add(self, friendship: Friendship) -> None:
        self.tx.execute(
            _ADD,
            {
                "account_low": min(friendship.asked_by, friendship.recipient),
                "account_high": max(friendship.asked_by, friendship.recipient),
                "asked_by": friendship.asked_by,
                "status": friendship.status,
                "created_at": friendship.created_at,
                "accepted_at": friendship.accepted_at,
            },
        )

    def accept(self, friendship: Friendship, at: int) -> None:
        pair = _pair(friendship.asked_by, friendship.recipient)
        self.tx.execute(_ACCEPT, {**pair, "at": at})

    def remove(self, first: AccountId, second: AccountId) -> bool:
        """Remove a request or friendship; return whether it existed."""
        return self.tx.execute(_REMOVE, _pair(first, second)).rowcount > 0

    def blocks(self, blocker: AccountId) -> list[AccountId]:
        """Return the accounts that this account has blocked, oldest block first."""
        return list(self.tx.execute(_BLOCKS_OF, {"me": blocker}).scalars())

    def block(self, blocker: AccountId, blocked: AccountId, at: int) -> None:
        self.tx.execute(_BLOCK, {"blocker": blocker, "blocked": blocked, "created_at": at})

    def unblock(self, blocker: AccountId, blocked: AccountId) -> bool:
        """Remove a block; return whether it existed."""
        return self.tx.execute(_UNBLOCK, {"me": blocker, "other": blocked}).rowcount > 0


@frozen
class Blocks:
    """A reader of the blocks between accounts; each call opens its own database transaction."""

    ledger: Ledger

    def blocked(self, me: AccountId, others: Iterable[AccountId]) -> Deferred[set[AccountId]]:
        """Return those of ``others`` who blocked ``me`` or whom ``me`` blocked."""
        wanted = list(others)
        return self.ledger.read_snapshot(lambda tx: SqlFriends(tx).blocked(me, wanted))


def _pair(first: AccountId, second: AccountId) -> dict[str, str]:
    return {"low": min(first, second), "high": max(first, second)}


def _friendship(row: Any) -> Friendship:
    recipient = row.account_high if row.asked_by == row.account_low else row.account_low
    return Friendship(row.asked_by, recipient, row.status, row.created_at, row.accepted_at)
