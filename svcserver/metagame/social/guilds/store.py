"""The tables of guilds, members and invites, and live data about the creation of guilds.

Names that differ only in letter case count as equal. Spec: 1 §4 Guilds, Create.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from svcserver.board.board import BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.quota import MOST
from svcserver.db.tables import ACCOUNT, METADATA, ROW_ID
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.guilds.rules import RANK_ORDER, Guild, GuildInvitation, Member, Rank

GUILDS = sa.Table(
    "guilds",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(32), nullable=False),
    sa.Column("name_key", sa.String(32), nullable=False),
    sa.Column("nameplate", sa.String(16), nullable=False),
    sa.Column("nameplate_key", sa.String(16), nullable=True),  # NULL if empty: never taken
    sa.Column("leader_id", sa.String(64), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("name_key"),
    sa.UniqueConstraint("nameplate_key"),
)
GUILD_MEMBERS = sa.Table(
    "guild_members",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),  # an account is in at most one guild
    sa.Column("guild_id", sa.String(64), nullable=False, index=True),
    sa.Column("rank", sa.String(16), nullable=False),
    sa.Column("joined_at", sa.BigInteger, nullable=False),
)
GUILD_INVITES = sa.Table(
    "guild_invites",
    METADATA,
    sa.Column("seq", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(64), nullable=False),
    sa.Column("guild_id", sa.String(64), nullable=False),
    sa.Column("account_id", sa.String(64), nullable=False, index=True),
    sa.Column("inviter_id", sa.String(64), nullable=False, info=ACCOUNT),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
    sa.Column("declined_at", sa.BigInteger, nullable=True),
    sa.UniqueConstraint("id"),
    sa.UniqueConstraint("guild_id", "account_id"),
)

_G, _M, _I = GUILDS.c, GUILD_MEMBERS.c, GUILD_INVITES.c
_GUILD = sa.select(GUILDS).where(_G.id == sa.bindparam("wanted"))
_NAMED = sa.select(GUILDS).where(_G.name_key == sa.bindparam("wanted"))
_NAMEPLATE = sa.select(_G.id).where(_G.nameplate_key == sa.bindparam("wanted"))
_INSERT_GUILD = sa.insert(GUILDS)
_SET_LEADER = (
    sa.update(GUILDS).where(_G.id == sa.bindparam("wanted")).values(leader_id=sa.bindparam("who"))
)
_DISBAND = (
    sa.delete(GUILD_INVITES).where(_I.guild_id == sa.bindparam("wanted")),
    sa.delete(GUILD_MEMBERS).where(_M.guild_id == sa.bindparam("wanted")),
    sa.delete(GUILDS).where(_G.id == sa.bindparam("wanted")),
)
_MEMBER = sa.select(GUILD_MEMBERS).where(_M.account_id == sa.bindparam("who"))
_MEMBERS = sa.select(GUILD_MEMBERS).where(_M.guild_id == sa.bindparam("wanted"))
_SIZE = (
    sa.select(sa.func.count())
    .select_from(GUILD_MEMBERS)
    .where(_M.guild_id == sa.bindparam("wanted"))
)
_JOIN = sa.insert(GUILD_MEMBERS)
_LEAVE = sa.delete(GUILD_MEMBERS).where(_M.account_id == sa.bindparam("who"))
_SET_RANK = (
    sa.update(GUILD_MEMBERS)
    .where(_M.account_id == sa.bindparam("who"), _M.guild_id == sa.bindparam("wanted"))
    .values(rank=sa.bindparam("word"))
)
_INVITE = sa.select(GUILD_INVITES).where(_I.id == sa.bindparam("wanted"))
_INVITE_TO = sa.select(GUILD_INVITES).where(
    _I.guild_id == sa.bindparam("wanted"), _I.account_id == sa.bindparam("who")
)
_OF_GUILD = sa.select(GUILD_INVITES).where(_I.guild_id == sa.bindparam("wanted"))
_OF_PLAYER = (
    sa.select(GUILD_INVITES)
    .where(_I.account_id == sa.bindparam("who"))
    .order_by(_I.created_at, _I.seq)
)
_ADD_INVITE = sa.insert(GUILD_INVITES)
_DROP_INVITE = sa.delete(GUILD_INVITES).where(_I.id == sa.bindparam("wanted"))
_DECLINE = (
    sa.update(GUILD_INVITES)
    .where(_I.id == sa.bindparam("wanted"))
    .values(declined_at=sa.bindparam("at"), expires_at=sa.bindparam("until"))
)
_OPEN = _I.declined_at.is_(None)
_DROP_BY = sa.delete(GUILD_INVITES).where(
    _OPEN, _I.guild_id == sa.bindparam("wanted"), _I.inviter_id == sa.bindparam("who")
)
_DROP_BETWEEN = sa.delete(GUILD_INVITES).where(
    _OPEN,
    sa.or_(
        (_I.inviter_id == sa.bindparam("one")) & (_I.account_id == sa.bindparam("other")),
        (_I.inviter_id == sa.bindparam("other")) & (_I.account_id == sa.bindparam("one")),
    ),
)
_SWEEP = sa.delete(GUILD_INVITES).where(_I.expires_at <= sa.bindparam("at"))
_SUMMARIES = (
    sa.select(
        _G.id,
        _G.name,
        _G.nameplate,
        ACCOUNTS.c.username,
        sa.select(sa.func.count())
        .select_from(GUILD_MEMBERS)
        .where(_M.guild_id == _G.id)
        .scalar_subquery()
        .label("members"),
    )
    .select_from(GUILDS)
    .outerjoin(ACCOUNTS, ACCOUNTS.c.id == _G.leader_id)
    .order_by(_G.name_key)
)


@frozen
class Summary:
    """A guild in the list of all guilds."""

    id: str
    name: str
    nameplate: str
    leader: str
    members: int


@frozen
class SqlGuilds:
    """The stored guilds, members and invites, inside one transaction."""

    tx: sa.Connection

    def exists(self, account_id: AccountId) -> bool:
        return SqlFriends(self.tx).exists(account_id)

    def blocked_between(self, first: AccountId, second: AccountId) -> bool:
        return SqlFriends(self.tx).blocked_between(first, second)

    def member(self, account_id: AccountId) -> Member | None:
        """Return the account's membership, or None."""
        row = self.tx.execute(_MEMBER, {"who": account_id}).first() if _sane(account_id) else None
        return None if row is None else _member(row)

    def guild(self, guild_id: str) -> Guild | None:
        return self._one_guild(_GUILD, guild_id)

    def guild_named(self, name: str) -> Guild | None:
        """Return the guild with that name, ignoring case."""
        return self._one_guild(_NAMED, fold(name))

    def _one_guild(self, statement: Any, wanted: str) -> Guild | None:
        row = self.tx.execute(statement, {"wanted": wanted}).first() if _sane(wanted) else None
        if row is None:
            return None
        return Guild(row.id, row.name, row.nameplate, row.leader_id, row.created_at)

    def members(self, guild_id: str) -> Sequence[Member]:
        """Return the members, sorted by rank, then by the time of joining."""
        members = [_member(row) for row in self.tx.execute(_MEMBERS, {"wanted": guild_id})]
        return sorted(
            members,
            key=lambda member: (RANK_ORDER.index(member.rank), member.joined_at, member.account_id),
        )

    def size(self, guild_id: str) -> int:
        return int(self.tx.execute(_SIZE, {"wanted": guild_id}).scalar_one())

    def name_is_taken(self, name: str) -> bool:
        """Return whether a guild has the name, ignoring case."""
        return self.guild_named(name) is not None

    def nameplate_is_taken(self, nameplate: str) -> bool:
        """Return whether a guild has the nameplate, ignoring case."""
        return self.tx.execute(_NAMEPLATE, {"wanted": fold(nameplate)}).first() is not None

    def insert_guild(self, guild: Guild) -> None:
        self.tx.execute(
            _INSERT_GUILD,
            {
                "id": guild.id,
                "name": guild.name,
                "name_key": fold(guild.name),
                "nameplate": guild.nameplate,
                "nameplate_key": fold(guild.nameplate) or None,
                "leader_id": guild.leader,
                "created_at": guild.created_at,
            },
        )

    def join(self, member: Member) -> None:
        self.tx.execute(
            _JOIN,
            {
                "account_id": member.account_id,
                "guild_id": member.guild_id,
                "rank": member.rank.value,
                "joined_at": member.joined_at,
            },
        )

    def remove(self, account_id: AccountId) -> None:
        self.tx.execute(_LEAVE, {"who": account_id})

    def set_rank(self, member: Member, rank: Rank) -> None:
        self.tx.execute(
            _SET_RANK, {"who": member.account_id, "wanted": member.guild_id, "word": rank.value}
        )

    def set_leader(self, guild_id: str, leader: AccountId) -> None:
        """Set the guild's leader; the members' ranks do not change."""
        self.tx.execute(_SET_LEADER, {"wanted": guild_id, "who": leader})

    def disband(self, guild_id: str) -> None:
        """Delete the guild, its members and its invites."""
        for statement in _DISBAND:
            self.tx.execute(statement, {"wanted": guild_id})

    def invite(self, invite_id: str) -> GuildInvitation | None:
        if not _sane(invite_id):
            return None
        row = self.tx.execute(_INVITE, {"wanted": invite_id}).first()
        return None if row is None else _invite(row)

    def invite_to(self, guild_id: str, account_id: AccountId) -> GuildInvitation | None:
        """Return the guild's invite to the player, which may be open, expired or declined."""
        row = self.tx.execute(_INVITE_TO, {"wanted": guild_id, "who": account_id}).first()
        return None if row is None else _invite(row)

    def invites_of_guild(self, guild_id: str) -> Sequence[GuildInvitation]:
        """Return all invites of the guild, including expired and declined invites."""
        return [_invite(row) for row in self.tx.execute(_OF_GUILD, {"wanted": guild_id})]

    def invites_of_player(self, account_id: AccountId) -> Sequence[GuildInvitation]:
        """Return all invites to a player, oldest first."""
        return [_invite(row) for row in self.tx.execute(_OF_PLAYER, {"who": account_id})]

    def add_invite(self, invite: GuildInvitation) -> None:
        self.tx.execute(
            _ADD_INVITE,
            {
                "id": invite.id,
                "guild_id": invite.guild_id,
                "account_id": invite.account_id,
                "inviter_id": invite.inviter,
                "created_at": invite.created_at,
                "expires_at": invite.expires_at,
                "declined_at": invite.declined_at,
            },
        )

    def drop_invite(self, invite_id: str) -> None:
        self.tx.execute(_DROP_INVITE, {"wanted": invite_id})

    def decline_invite(self, invite_id: str, at: int, *, until: int) -> None:
        """Mark an invite as declined; ``until`` is when the guild may invite the player again."""
        self.tx.execute(_DECLINE, {"wanted": invite_id, "at": at, "until": until})

    def drop_invites_by(self, guild_id: str, inviter: AccountId) -> None:
        """Delete the open invites that ``inviter`` sent."""
        self.tx.execute(_DROP_BY, {"wanted": guild_id, "who": inviter})

    def sweep(self, at: int) -> None:
        """Delete expired invites; declined ones stay until the player may be invited again."""
        self.tx.execute(_SWEEP, {"at": at})

    def summaries(self) -> list[Summary]:
        return [
            Summary(row.id, row.name, row.nameplate, row.username or "", row.members)
            for row in self.tx.execute(_SUMMARIES)
        ]


def drop_invites_between(tx: sa.Connection, first: AccountId, second: AccountId) -> None:
    """Delete the open invites between two accounts, after one has blocked the other."""
    tx.execute(_DROP_BETWEEN, {"one": first, "other": second})


def fold(name: str) -> str:
    """Return an ASCII name in lower case, for comparisons."""
    return name.lower()


def _sane(text: str) -> bool:
    """Return whether the text can be an id or a name; a NUL would be an error in PostgreSQL."""
    return 0 < len(text) <= 64 and "\0" not in text


def _member(row: Any) -> Member:
    return Member(row.account_id, row.guild_id, Rank(row.rank), row.joined_at)


def _invite(row: Any) -> GuildInvitation:
    return GuildInvitation(
        row.id,
        row.guild_id,
        row.account_id,
        row.inviter_id,
        row.created_at,
        row.expires_at,
        row.declined_at,
    )


# -- players who are about to found a guild --------------------------------------

VALID_S = 900.0
MAX_PAIRS = 5
ACTIVE_S = 60.0


@frozen
class CheckedName:
    """A name and nameplate in lower case, validated at the time ``at`` (epoch seconds)."""

    at: float
    name: str
    nameplate: str


CHECKED = Kind("guild_names_checked", tuple[CheckedName, ...], lives_s=VALID_S, most=MOST)
ACTIVE = Kind("guild_founders_heard", float, lives_s=ACTIVE_S, most=MOST, compared=False)


@frozen
class Founders:
    """The facts that allow a player to create a guild: validated names, and recent activity."""

    transaction: BoardTransaction

    def note(self, account_id: AccountId, name: str, nameplate: str) -> None:
        """Record that this name and nameplate are valid for the account."""
        pair = CheckedName(self.transaction.now, name.lower(), nameplate.lower())
        self.transaction.put(CHECKED, account_id, (*self._fresh(account_id), pair)[-MAX_PAIRS:])

    def checked(self, account_id: AccountId, name: str, plate: str | None) -> bool:
        """Return whether this name and nameplate were validated for the account within ``VALID_S``.

        Letter case is ignored.
        """
        wanted = (name.lower(), (plate or "").lower())
        return any((pair.name, pair.nameplate) == wanted for pair in self._fresh(account_id))

    def is_active(self, account_id: AccountId) -> bool:
        """Return whether the player recently sent a heartbeat, party poll or valid guild name."""
        was_seen = self.transaction.get(ACTIVE, account_id) is not None
        return was_seen or bool(self._fresh(account_id))

    def mark_seen(self, account_id: AccountId) -> None:
        """Record a heartbeat or party poll of the player."""
        self.transaction.put(ACTIVE, account_id, self.transaction.now)

    def clear(self, account_id: AccountId) -> None:
        """Forget the guild names that were validated for the player."""
        self.transaction.drop(CHECKED, account_id)

    def _fresh(self, account_id: AccountId) -> tuple[CheckedName, ...]:
        pairs = self.transaction.get(CHECKED, account_id) or ()
        return tuple(pair for pair in pairs if self.transaction.now - pair.at < VALID_S)
