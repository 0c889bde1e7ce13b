"""The tables of accounts, keys and invite codes; keys are stored as SHA-256 hashes."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from attrs import evolve, field, frozen

from svcserver.db.tables import METADATA, chunks
from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.roles import Role
from svcserver.kernel.secrets import constant_time_equal, fingerprint
from svcserver.metagame.accounts.rules import MAX_LOOKUP_NAME, Account, InviteCode
from svcserver.metagame.accounts.sanctions import SANCTIONS, SanctionKind

MAX_MADE_BY = 96  # characters, as in the audit log

ACCOUNTS = sa.Table(
    "accounts",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("username", sa.String(64), nullable=False),
    # lower case; NULL (never found) for old accounts whose names differ only in case
    sa.Column("username_folded", sa.String(64), nullable=True),
    sa.Column("is_admin", sa.Integer, nullable=False, server_default="0"),
    sa.Column("notes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    # epoch seconds; a token issued earlier is refused
    sa.Column("tokens_not_before", sa.BigInteger, nullable=False, server_default="0", index=True),
    sa.Column("staff_role", sa.String(16), nullable=True),  # for owners, is_admin is set instead
    sa.UniqueConstraint("username_folded"),
)
ACCOUNT_KEYS = sa.Table(
    "account_keys",
    METADATA,
    sa.Column("key_hash", sa.String(64), primary_key=True),
    sa.Column(
        "account_id", sa.String(64), sa.ForeignKey("accounts.id"), nullable=False, index=True
    ),
)
INVITE_CODES = sa.Table(
    "invite_codes",
    METADATA,
    sa.Column("code", sa.String(128), primary_key=True),
    sa.Column("uses_remaining", sa.Integer, nullable=False),
    sa.Column("infinite_uses", sa.Integer, nullable=False, server_default="0"),
    sa.Column("note", sa.String(64), nullable=False, server_default=""),
    sa.Column("made_by", sa.String(MAX_MADE_BY), nullable=False, server_default=""),
    sa.Column("made_at", sa.BigInteger, nullable=True),  # epoch seconds, like ``expires_at``
    sa.Column("expires_at", sa.BigInteger, nullable=True),
)
INVITE_USES = sa.Table(  # the accounts that were registered with a code
    "invite_uses",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("code", sa.String(128), nullable=False, index=True),
    sa.Column("at", sa.BigInteger, nullable=False),  # epoch seconds
)
GAMESERVER_KEYS = sa.Table(
    "gameserver_keys", METADATA, sa.Column("key_hash", sa.String(64), primary_key=True)
)
QUEUED_KEYS = sa.Table(
    "gameserver_keys_to_register", METADATA, sa.Column("key", sa.String(256), primary_key=True)
)


DELETED_ACCOUNTS = sa.Table(  # deleted accounts whose tokens may not have expired yet
    "deleted_accounts",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("not_before", sa.BigInteger, nullable=False, index=True),  # epoch seconds
)
_A = (
    ACCOUNTS.c.id,
    ACCOUNTS.c.username,
    ACCOUNTS.c.is_admin,
    ACCOUNTS.c.notes,
    ACCOUNTS.c.tokens_not_before,
    ACCOUNTS.c.staff_role,
)
_BY_ID = sa.select(*_A).where(ACCOUNTS.c.id == sa.bindparam("account_id"))
_BY_IDS = sa.select(*_A).where(ACCOUNTS.c.id.in_(sa.bindparam("ids", expanding=True)))
_BY_NAME = sa.select(*_A).where(ACCOUNTS.c.username_folded == sa.bindparam("folded"))
_BY_LOWER = sa.select(ACCOUNTS.c.id).where(
    sa.or_(
        ACCOUNTS.c.username_folded == sa.bindparam("folded"),
        (ACCOUNTS.c.username_folded.is_(None))
        & (sa.func.lower(ACCOUNTS.c.username) == sa.bindparam("folded")),
    )
)
_BY_KEY = (
    sa.select(*_A, ACCOUNT_KEYS.c.key_hash, SANCTIONS.c.ends_at)
    .join(ACCOUNT_KEYS, ACCOUNT_KEYS.c.account_id == ACCOUNTS.c.id)
    .outerjoin(
        SANCTIONS,
        (SANCTIONS.c.account_id == ACCOUNTS.c.id) & (SANCTIONS.c.kind == SanctionKind.BAN.value),
    )
    .where(ACCOUNT_KEYS.c.key_hash == sa.bindparam("key_hash"))
)
_ADD = sa.insert(ACCOUNTS)
_ADD_KEY = sa.insert(ACCOUNT_KEYS)
_DROP_KEYS = sa.delete(ACCOUNT_KEYS).where(ACCOUNT_KEYS.c.account_id == sa.bindparam("holder"))
_RENAME = (
    sa.update(ACCOUNTS)
    .where(ACCOUNTS.c.id == sa.bindparam("account_id"))
    .values(username=sa.bindparam("name"), username_folded=sa.bindparam("folded"))
)
_SET_ROLE = (
    sa.update(ACCOUNTS)
    .where(ACCOUNTS.c.id == sa.bindparam("account_id"))
    .values(is_admin=sa.bindparam("flag"), staff_role=sa.bindparam("word"))
)
_OWNERS = sa.select(sa.func.count()).select_from(ACCOUNTS).where(ACCOUNTS.c.is_admin != 0)
_FIRST_OWNER = (
    sa.select(*_A)
    .where(ACCOUNTS.c.is_admin != 0)
    .order_by(ACCOUNTS.c.created_at, ACCOUNTS.c.id)
    .limit(1)
)
_SET_NOT_BEFORE = (
    sa.update(ACCOUNTS)
    .where(ACCOUNTS.c.id == sa.bindparam("account_id"))
    .values(tokens_not_before=sa.bindparam("since"))
)
_MOVE_NOT_BEFORE = (
    sa.update(ACCOUNTS)
    .where(
        ACCOUNTS.c.id == sa.bindparam("account_id"),
        ACCOUNTS.c.tokens_not_before == sa.bindparam("before"),
    )
    .values(tokens_not_before=sa.bindparam("after"))
)
_EPOCHS = sa.select(ACCOUNTS.c.id, ACCOUNTS.c.tokens_not_before).where(
    ACCOUNTS.c.tokens_not_before > sa.bindparam("since")
)
_ADD_DELETED = sa.insert(DELETED_ACCOUNTS)
_DELETED_EPOCHS = sa.select(DELETED_ACCOUNTS).where(
    DELETED_ACCOUNTS.c.not_before > sa.bindparam("since")
)
_ALL = sa.select(*_A).order_by(ACCOUNTS.c.username)
_PAGE = (
    sa.select(
        *_A,
        sa.select(sa.func.min(ACCOUNT_KEYS.c.key_hash))
        .where(ACCOUNT_KEYS.c.account_id == ACCOUNTS.c.id)
        .scalar_subquery()
        .label("key_hash"),
    )
    .order_by(ACCOUNTS.c.id)
    .limit(sa.bindparam("count"))
    .offset(sa.bindparam("skip"))
)
_INVITE = sa.select(INVITE_CODES).where(INVITE_CODES.c.code == sa.bindparam("wanted"))
_INVITES = sa.select(INVITE_CODES).order_by(INVITE_CODES.c.code)
_SPEND = (
    sa.update(INVITE_CODES)
    .where(INVITE_CODES.c.code == sa.bindparam("wanted"))
    .where(sa.or_(INVITE_CODES.c.infinite_uses == 1, INVITE_CODES.c.uses_remaining > 0))
    .values(uses_remaining=INVITE_CODES.c.uses_remaining - (1 - INVITE_CODES.c.infinite_uses))
)
_ADD_INVITE = sa.insert(INVITE_CODES)
_DROP_INVITE = sa.delete(INVITE_CODES).where(INVITE_CODES.c.code == sa.bindparam("wanted"))
_USABLE = sa.or_(INVITE_CODES.c.infinite_uses == 1, INVITE_CODES.c.uses_remaining > 0) & sa.or_(
    INVITE_CODES.c.expires_at.is_(None), INVITE_CODES.c.expires_at > sa.bindparam("now")
)
_NEWEST_INVITES = (
    sa.select(INVITE_CODES)
    .order_by(
        sa.case((_USABLE, 0), else_=1),
        sa.func.coalesce(INVITE_CODES.c.made_at, 0).desc(),
        INVITE_CODES.c.code,
    )
    .limit(sa.bindparam("count"))
)
_ADD_USE = sa.insert(INVITE_USES)
_DROP_USES = sa.delete(INVITE_USES).where(INVITE_USES.c.code == sa.bindparam("wanted"))
_RANKED = (
    sa.select(
        INVITE_USES,
        sa.func.count().over(partition_by=INVITE_USES.c.code).label("uses"),
        sa.func.row_number()
        .over(
            partition_by=INVITE_USES.c.code,
            order_by=(INVITE_USES.c.at.desc(), INVITE_USES.c.account_id),
        )
        .label("number"),
    )
    .where(INVITE_USES.c.code.in_(sa.bindparam("codes", expanding=True)))
    .subquery()
)
_USES = (
    sa.select(_RANKED)
    .where(_RANKED.c.number <= sa.bindparam("most"))
    .order_by(_RANKED.c.code, _RANKED.c.number)
)
_GAMESERVER_KEY = sa.select(GAMESERVER_KEYS.c.key_hash).where(
    GAMESERVER_KEYS.c.key_hash == sa.bindparam("key_hash")
)
_UNQUEUE = sa.delete(QUEUED_KEYS).where(QUEUED_KEYS.c.key == sa.bindparam("wanted"))
_DROP_GAMESERVER_KEY = sa.delete(GAMESERVER_KEYS).where(
    GAMESERVER_KEYS.c.key_hash == sa.bindparam("key_hash")
)


@frozen
class InviteUses:
    """The number of uses of an invite code, and the (account id, time) pairs of the newest uses."""

    count: int
    newest: list[tuple[AccountId, int]] = field(factory=list)


@frozen
class SqlAccounts:
    """The accounts in an open transaction."""

    tx: sa.Connection

    def find(self, account_id: object) -> Account | None:
        """Return the account with this id, or None if the id is unknown or malformed."""
        if not is_account_shaped(account_id):
            return None
        return _account(self.tx.execute(_BY_ID, {"account_id": account_id}).first())

    def find_all(self, account_ids: Iterable[str]) -> dict[AccountId, Account]:
        """Return the accounts with these ids; any number of ids is allowed."""
        wanted = [
            account_id for account_id in dict.fromkeys(account_ids) if is_account_shaped(account_id)
        ]
        accounts: dict[AccountId, Account] = {}
        for some in chunks(wanted):
            rows = self.tx.execute(_BY_IDS, {"ids": some})
            accounts.update((row.id, _known(row)) for row in rows)
        return accounts

    def named(self, username: str) -> Account | None:
        """Return the account with this name; outer spaces and ASCII case are ignored.

        In an old database, the names of two accounts may differ in letter case alone. Such accounts
        are not found if their ``username_folded`` is NULL.
        """
        folded = fold(username)
        if not 1 <= len(folded) <= MAX_LOOKUP_NAME or "\0" in folded:
            return None
        return _account(self.tx.execute(_BY_NAME, {"folded": folded}).first())

    def name_is_taken(self, username: str, but_for: AccountId | None = None) -> bool:
        """Return whether an account other than ``but_for`` has the name, ignoring case."""
        rows = self.tx.execute(_BY_LOWER, {"folded": fold(username)})
        return any(row.id != but_for for row in rows)

    def by_key(self, key: str) -> Account | None:
        """Return the account with this key, found by hash and compared in constant time.

        The account includes ``banned_until``; the other methods of the class leave it at 0.
        """
        offered = fingerprint(key)
        row = self.tx.execute(_BY_KEY, {"key_hash": offered}).first()
        if row is None or not constant_time_equal(row.key_hash, offered):
            return None
        return evolve(_known(row), banned_until=row.ends_at or 0)

    def add(self, account: Account, key: str, at: float) -> None:
        """Store a new account and the hash of its key."""
        self.tx.execute(
            _ADD,
            {
                "id": account.id,
                "username": account.username,
                "username_folded": fold(account.username),
                "is_admin": int(account.is_admin),
                "notes": account.notes,
                "created_at": int(at),
            },
        )
        self.tx.execute(_ADD_KEY, {"key_hash": fingerprint(key), "account_id": account.id})

    def replace_key(self, account_id: AccountId, key: str) -> None:
        self.tx.execute(_DROP_KEYS, {"holder": account_id})
        self.tx.execute(_ADD_KEY, {"key_hash": fingerprint(key), "account_id": account_id})

    def rename(self, account_id: AccountId, username: str) -> None:
        self.tx.execute(
            _RENAME, {"account_id": account_id, "name": username, "folded": fold(username)}
        )

    def set_role(self, account_id: AccountId, role: Role) -> None:
        word = role.word if role in (Role.HELPER, Role.MODERATOR) else None
        sent = {"account_id": account_id, "flag": int(role is Role.OWNER), "word": word}
        self.tx.execute(_SET_ROLE, sent)

    def owners(self) -> int:
        """Return the number of accounts with the role of owner."""
        return int(self.tx.execute(_OWNERS).scalar_one())

    def first_owner(self) -> Account | None:
        """Return the oldest account with the role of owner."""
        return _account(self.tx.execute(_FIRST_OWNER).first())

    def set_not_before(self, account_id: AccountId, not_before: int) -> None:
        self.tx.execute(_SET_NOT_BEFORE, {"account_id": account_id, "since": not_before})

    def move_not_before(self, account_id: AccountId, expected: int, new: int) -> bool:
        """Replace ``tokens_not_before`` by ``new`` if it is ``expected``; else return False."""
        sent = {"account_id": account_id, "before": expected, "after": new}
        return self.tx.execute(_MOVE_NOT_BEFORE, sent).rowcount == 1

    def epochs(self, since: int) -> dict[AccountId, int]:
        """Return each ``tokens_not_before`` later than ``since``; include deleted accounts."""
        wanted = {"since": since}
        deleted = self.tx.execute(_DELETED_EPOCHS, wanted)
        epochs = {row.account_id: row.not_before for row in deleted}
        existing = self.tx.execute(_EPOCHS, wanted)
        return epochs | {row.id: row.tokens_not_before for row in existing}

    def everyone(self) -> list[Account]:
        return [_known(row) for row in self.tx.execute(_ALL)]

    def page(self, skip: int, count: int) -> list[tuple[Account, str | None]]:
        """Return ``count`` accounts and their keys' hashes in id order; skip the first ``skip``."""
        rows = self.tx.execute(_PAGE, {"skip": skip, "count": count})
        return [(_known(row), row.key_hash) for row in rows]

    def invite(self, code: str) -> InviteCode | None:
        row = self.tx.execute(_INVITE, {"wanted": code}).first()
        return None if row is None else _invite(row)

    def invites(self) -> list[InviteCode]:
        return [_invite(row) for row in self.tx.execute(_INVITES)]

    def spend(self, code: str) -> bool:
        """Spend one use of an invite code; return False if no use is left."""
        return self.tx.execute(_SPEND, {"wanted": code}).rowcount == 1

    def newest_invites(self, now: float, count: int) -> list[InviteCode]:
        """Return up to ``count`` invite codes: first the usable codes, then the unusable codes.

        In each of these groups, the newest code comes first.
        """
        rows = self.tx.execute(_NEWEST_INVITES, {"now": int(now), "count": count})
        return [_invite(row) for row in rows]

    def invite_uses(self, codes: Iterable[str], most: int) -> dict[str, InviteUses]:
        """Return the latest uses (account and time) of each code, at most ``most`` per code."""
        uses: dict[str, InviteUses] = {}
        for some in chunks(list(codes)):
            for row in self.tx.execute(_USES, {"codes": some, "most": most}):
                known = uses.setdefault(row.code, InviteUses(row.uses))
                known.newest.append((row.account_id, row.at))
        return uses

    def note_use(self, code: str, account_id: AccountId, at: float) -> None:
        """Record that an account was registered with a code."""
        self.tx.execute(_ADD_USE, {"account_id": account_id, "code": code, "at": int(at)})

    def put_invite(self, invite: InviteCode) -> None:
        """Add an invite code, or replace the existing code."""
        self.tx.execute(_DROP_INVITE, {"wanted": invite.code})
        self.tx.execute(
            _ADD_INVITE,
            {
                "code": invite.code,
                "uses_remaining": invite.uses_remaining,
                "infinite_uses": int(invite.infinite_uses),
                "note": invite.note,
                "made_by": invite.made_by[:MAX_MADE_BY],
                "made_at": invite.made_at,
                "expires_at": invite.expires_at,
            },
        )

    def drop_invite(self, code: str) -> bool:
        """Delete an invite code and the list of its uses; return whether it existed."""
        self.tx.execute(_DROP_USES, {"wanted": code})
        return self.tx.execute(_DROP_INVITE, {"wanted": code}).rowcount == 1


def bury(tx: sa.Connection, account_id: AccountId, not_before: int) -> None:
    """Record that all tokens of a deleted account are invalid.

    ``not_before`` is in epoch seconds.
    """
    tx.execute(_ADD_DELETED, {"account_id": account_id, "not_before": not_before})


def knows_game_server(tx: sa.Connection, key: str) -> bool:
    """Return whether the game-server key is registered."""
    offered = fingerprint(key)
    row = tx.execute(_GAMESERVER_KEY, {"key_hash": offered}).first()
    return row is not None and constant_time_equal(row.key_hash, offered)


def is_anothers(tx: sa.Connection, key: str) -> bool:
    """Return whether the database has accounts, but none with this key.

    Such a database belongs to somebody else. It may have the tables of any svcserver version.
    """
    if not _has_accounts(tx):
        return False
    anybody = tx.execute(sa.select(ACCOUNTS.c.id).limit(1)).first()
    return anybody is not None and not knows_key(tx, key)


def knows_key(tx: sa.Connection, key: str) -> bool:
    """Return whether the database has an account with this key.

    The database may have the tables of any svcserver version.
    """
    mine = sa.select(ACCOUNT_KEYS.c.key_hash).where(ACCOUNT_KEYS.c.key_hash == fingerprint(key))
    return _has_accounts(tx) and tx.execute(mine).first() is not None


def _has_accounts(tx: sa.Connection) -> bool:
    """Return whether the account tables exist; a new database has no tables."""
    return {ACCOUNTS.name, ACCOUNT_KEYS.name} <= set(sa.inspect(tx).get_table_names())


def add_game_server_key(tx: sa.Connection, key: str) -> None:
    """Store a game-server key as a hash; nothing changes if it is already registered."""
    if not knows_game_server(tx, key):
        tx.execute(sa.insert(GAMESERVER_KEYS), {"key_hash": fingerprint(key)})


def drop_game_server_key(tx: sa.Connection, key: str) -> bool:
    """Delete a game-server key; return whether it was registered."""
    gone = tx.execute(_DROP_GAMESERVER_KEY, {"key_hash": fingerprint(key)})
    return gone.rowcount == 1


def move_queued_keys(tx: sa.Connection) -> int:
    """Register keys that the owner put into the queue table; return how many. Spec: 1 §2."""
    keys = list(tx.execute(sa.select(QUEUED_KEYS.c.key)).scalars())
    for key in keys:
        add_game_server_key(tx, key)
        tx.execute(_UNQUEUE, {"wanted": key})  # not the whole queue, which may have new keys
    return len(keys)


def fold(username: str) -> str:
    """Return a name's form for comparison: trimmed, with ASCII letters in lower case."""
    return "".join(c.lower() if c.isascii() else c for c in username.strip())


def _account(row: Any) -> Account | None:
    return None if row is None else _known(row)


def _known(row: Any) -> Account:
    return Account(
        row.id,
        row.username,
        bool(row.is_admin),
        row.notes,
        row.tokens_not_before,
        row.staff_role,
    )


def _invite(row: Any) -> InviteCode:
    return InviteCode(
        row.code,
        row.uses_remaining,
        bool(row.infinite_uses),
        row.note,
        row.made_by,
        row.made_at,
        row.expires_at,
    )
