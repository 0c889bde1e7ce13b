"""Rules of guilds: founding, membership, ranks and invites. Spec: 1 §3, §4 Guilds, §8.

Every function runs inside one transaction. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import frozen

from svcserver.kernel.ids import AccountId, is_account_shaped, new_id
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing, Refusal, TooMany
from svcserver.metagame.social.guilds import names
from svcserver.metagame.social.guilds.names import Words

if TYPE_CHECKING:
    from svcserver.metagame.social.guilds.store import SqlGuilds

MAX_GUILD_INVITES = 50
MAX_PLAYER_INVITES = 20
MAX_SENT = 30
SENT_S = 3600.0
DECLINE_PAUSE_MS = 24 * 3600 * 1000
CREATE_PAUSE_S = 600.0

OCCUPIED = "OccupiedAdorableQuillshot"
EXCLUDED = "ExcludedAdorableQuillshot"
SLY = "SlyAdorableQuillshot"
CLONED = "ClonedAdorableQuillshot"
REDUNDANT = "RedundantAdorableQuillshot"
STUFFED = "StuffedAdorableQuillshot"
UNINVITED = "UninvitedAdorableQuillshot"
DOCILE = "DocileAdorableQuillshot"
CHIEF = "ChiefAdorableQuillshot"


class Rank(StrEnum):
    """A member's rank, in the order in which members are listed."""

    LEADER = "Leader"
    OFFICER = "Officer"
    MEMBER = "Member"


RANK_ORDER = tuple(Rank)
MAY_INVITE = (Rank.LEADER, Rank.OFFICER)


@frozen
class Member:
    """An account's membership in a guild."""

    account_id: AccountId
    guild_id: str
    rank: Rank
    joined_at: int


@frozen
class Guild:
    """A guild without its members."""

    id: str
    name: str
    nameplate: str
    leader: AccountId
    created_at: int


@frozen
class Invite:
    """An invite of ``account_id``; a declined one is kept until the guild may invite again."""

    id: str
    guild_id: str
    account_id: AccountId
    inviter: AccountId
    created_at: int
    expires_at: int
    declined_at: int | None = None

    def is_open(self, at: int) -> bool:
        """Whether it is neither answered nor expired."""
        return self.declined_at is None and at < self.expires_at


# -- names and founding ------------------------------------------------------


def check_free(guilds: SqlGuilds, account_id: AccountId) -> None:
    """Raise Conflict for an account that is in a guild."""
    if guilds.member(account_id) is not None:
        raise Conflict("Already in a guild.", code=OCCUPIED)


def check_names(
    guilds: SqlGuilds, words: Words, name: str, nameplate: str | None
) -> tuple[str, str]:
    """Both texts, if they are allowed and free; raises the first failure."""
    good = names.name_of(words, name)
    if guilds.name_is_taken(good):
        raise Conflict("This guild name is taken.", code=names.SEIZED)
    plate = names.nameplate_of(words, nameplate)
    if plate and guilds.nameplate_is_taken(plate):
        raise Conflict("This nameplate is taken.", code=names.CAPTURED)
    return good, plate


def validate(
    guilds: SqlGuilds, words: Words, me: AccountId, name: str, nameplate: str | None
) -> tuple[str, str]:
    """Check whether ``me`` could found a guild of that name; creates nothing."""
    check_free(guilds, me)
    return check_names(guilds, words, name, nameplate)


@frozen
class Wish:
    """A guild to found, as sent, and the in-memory state of its leader.

    ``validated``: the leader had this pair validated lately. ``may_found``: their last new
    guild is at least ten minutes old.
    """

    leader: AccountId
    name: str
    nameplate: str | None
    validated: bool
    may_found: bool


def found(guilds: SqlGuilds, words: Words, wish: Wish, at: int) -> Guild:
    """Create a guild, checked in the order of the specification."""
    leader = wish.leader
    if not is_account_shaped(leader) or not guilds.exists(leader):
        raise Malformed("No such leader account.")
    if not wish.validated:
        check_names(guilds, words, wish.name, wish.nameplate)
        raise Forbidden("The leader has not checked this name.")
    name, nameplate = validate(guilds, words, leader, wish.name, wish.nameplate)
    if not wish.may_found:
        raise TooMany("One new guild in ten minutes.")
    guild = Guild(new_id(), name, nameplate, leader, at)
    guilds.found(guild)
    guilds.join(Member(leader, guild.id, Rank.LEADER, at))
    return guild


# -- membership --------------------------------------------------------------


def my_place(guilds: SqlGuilds, me: AccountId) -> Member:
    """The caller's membership; raises Missing."""
    mine = guilds.member(me)
    if mine is None:
        raise Missing("Not in a guild.", code=EXCLUDED)
    return mine


def leave(guilds: SqlGuilds, me: AccountId) -> Member:
    """Leave the guild; raises Conflict for its leader."""
    mine = my_place(guilds, me)
    if mine.rank is Rank.LEADER:
        raise Conflict("The leader cannot leave.", code=CHIEF)
    _remove(guilds, mine)
    return mine


def kick(guilds: SqlGuilds, me: AccountId, target: AccountId) -> Member:
    """Remove a member, as the leader only; with ``me`` as target, leave."""
    if me == target:
        return leave(guilds, me)
    mine = my_place(guilds, me)
    if mine.rank is not Rank.LEADER:
        raise _sly()
    theirs = _fellow(guilds, mine, target)
    _remove(guilds, theirs)
    return theirs


def set_rank(guilds: SqlGuilds, me: AccountId, target: AccountId, word: str) -> None:
    """Change a member's rank; ``leader`` hands the guild over."""
    mine = my_place(guilds, me)
    rank = next((one for one in Rank if one.lower() == word.lower()), None)
    if rank is None:
        raise Malformed("Unknown rank.", code=DOCILE)
    theirs = _fellow(guilds, mine, target)
    if mine.rank is not Rank.LEADER or theirs.rank is Rank.LEADER:
        raise _sly()
    if theirs.rank is rank:
        return
    guilds.set_rank(theirs, rank)
    if rank is Rank.LEADER:
        guilds.set_rank(mine, Rank.OFFICER)
        guilds.set_leader(mine.guild_id, target)
    elif rank is Rank.MEMBER:
        guilds.drop_invites_by(mine.guild_id, target)


def disband(guilds: SqlGuilds, me: AccountId, guild_id: str) -> Sequence[Member]:
    """Disband the caller's own guild; returns the members it had."""
    mine = guilds.member(me)
    if mine is None or mine.guild_id != guild_id:
        raise Missing("Not your guild.", code=EXCLUDED)
    if mine.rank is not Rank.LEADER:
        raise _sly()
    gone = guilds.members(guild_id)
    guilds.disband(guild_id)
    return gone


def disband_named(guilds: SqlGuilds, text: str) -> tuple[Guild, Sequence[Member]]:
    """Disband a guild by its id or name (ignoring case), for the owner."""
    guild = guilds.guild(text) or guilds.guild_named(text)
    if guild is None:
        raise Missing("no such guild", code="not_found")
    gone = guilds.members(guild.id)
    guilds.disband(guild.id)
    return guild, gone


def _fellow(guilds: SqlGuilds, mine: Member, target: AccountId) -> Member:
    theirs = guilds.member(target)
    if theirs is None or theirs.guild_id != mine.guild_id:
        raise Missing("Not in your guild.", code=EXCLUDED)
    return theirs


def _remove(guilds: SqlGuilds, member: Member) -> None:
    guilds.drop_invites_by(member.guild_id, member.account_id)
    guilds.remove(member.account_id)


def _sly() -> Refusal:
    return Forbidden("Your rank does not allow this.", code=SLY)


# -- invites -----------------------------------------------------------------


@frozen
class Limits:
    """The owner's limits: members of a guild, and an invite's lifetime in milliseconds."""

    max_members: int
    invite_ms: int


def invite(
    guilds: SqlGuilds, limits: Limits, me: AccountId, target: AccountId, at: int, *, may_send: bool
) -> Guild:
    """Invite an account into the caller's guild.

    ``may_send`` is False when the inviter's quota is used up; it is checked last.
    """
    mine = my_place(guilds, me)
    if mine.rank not in MAY_INVITE:
        raise _sly()
    theirs = guilds.member(target)
    if target == me or (theirs is not None and theirs.guild_id == mine.guild_id):
        raise Conflict("Already a member.", code=CLONED)
    if not guilds.exists(target):
        raise Missing("No such account.")
    if guilds.blocked_between(me, target):
        raise Forbidden("This player cannot be invited.")
    _check_room(guilds, limits, mine.guild_id)
    _check_invite_limits(guilds, mine.guild_id, target, at)
    if not may_send:
        raise TooMany("Too many invites this hour.")
    guilds.sweep(at)
    before = guilds.invite_to(mine.guild_id, target)
    if before is not None:
        guilds.drop_invite(before.id)
    waiting = [one for one in guilds.invites_of_player(target) if one.is_open(at)]
    for oldest in waiting[: max(0, len(waiting) - MAX_PLAYER_INVITES + 1)]:
        guilds.drop_invite(oldest.id)
    guilds.add_invite(Invite(new_id(), mine.guild_id, target, me, at, at + limits.invite_ms))
    guild = guilds.guild(mine.guild_id)
    if guild is None:
        raise Missing("Not in a guild.", code=EXCLUDED)
    return guild


def _check_room(guilds: SqlGuilds, limits: Limits, guild_id: str) -> None:
    if guilds.size(guild_id) >= limits.max_members:
        raise Conflict("The guild is full.", code=STUFFED)


def _check_invite_limits(guilds: SqlGuilds, guild_id: str, target: AccountId, at: int) -> None:
    before = guilds.invite_to(guild_id, target)
    if before is not None and before.is_open(at):
        raise Conflict("Already invited.", code=REDUNDANT)
    declined_at = before.declined_at if before is not None else None
    if declined_at is not None and at - declined_at < DECLINE_PAUSE_MS:
        raise TooMany("This player declined lately.")
    if sum(one.is_open(at) for one in guilds.invites_of_guild(guild_id)) >= MAX_GUILD_INVITES:
        raise TooMany("The guild has too many open invites.")


def visible(guilds: SqlGuilds, one: Invite, at: int) -> bool:
    """Whether the invited player may see and accept it.

    Not with a block between the two, nor when the inviter could no longer invite.
    """
    if not one.is_open(at) or guilds.blocked_between(one.inviter, one.account_id):
        return False
    inviter = guilds.member(one.inviter)
    return inviter is not None and inviter.guild_id == one.guild_id and inviter.rank in MAY_INVITE


def invites(guilds: SqlGuilds, me: AccountId, at: int) -> list[tuple[Invite, Guild]]:
    """The caller's open invites with their guilds, newest first."""
    found = []
    for one in reversed(guilds.invites_of_player(me)):
        guild = guilds.guild(one.guild_id) if visible(guilds, one, at) else None
        if guild is not None:
            found.append((one, guild))
    return found


def _my_invite(guilds: SqlGuilds, me: AccountId, invite_id: str, at: int) -> Invite:
    one = guilds.invite(invite_id)
    if one is None or one.account_id != me or not visible(guilds, one, at):
        raise Missing("No such invite.", code=UNINVITED)
    return one


def accept(guilds: SqlGuilds, limits: Limits, me: AccountId, invite_id: str, at: int) -> Member:
    """Join as Member; all other invites of the caller end."""
    one = _my_invite(guilds, me, invite_id, at)
    check_free(guilds, me)
    _check_room(guilds, limits, one.guild_id)
    joined = Member(me, one.guild_id, Rank.MEMBER, at)
    guilds.join(joined)
    _drop_open_invites(guilds, me)
    return joined


def decline(guilds: SqlGuilds, me: AccountId, invite_id: str, at: int) -> None:
    """Decline; the guild cannot invite the caller again for a day."""
    one = _my_invite(guilds, me, invite_id, at)
    guilds.decline_invite(one.id, at, until=at + DECLINE_PAUSE_MS)


def _drop_open_invites(guilds: SqlGuilds, account_id: AccountId) -> None:
    for one in guilds.invites_of_player(account_id):
        if one.declined_at is None:
            guilds.drop_invite(one.id)
