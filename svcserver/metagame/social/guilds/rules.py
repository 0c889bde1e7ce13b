"""The rules for guilds: founding, membership, ranks and invites. Spec: 1 §3, §4 Guilds, §8.

Times are epoch milliseconds.
"""

from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing, Refusal, TooMany

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
    """The ranks of guild members, highest first; member lists have the same order."""

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
    """A guild, without the list of members."""

    id: str
    name: str
    nameplate: str
    leader: AccountId
    created_at: int


@frozen
class GuildInvitation:
    """An invite to ``account_id``.

    A declined invite is stored until the guild may invite the player again.
    """

    id: str
    guild_id: str
    account_id: AccountId
    inviter: AccountId
    created_at: int
    expires_at: int
    declined_at: int | None = None

    def is_open(self, at: int) -> bool:
        """Return whether the invite is neither answered nor expired."""
        return self.declined_at is None and at < self.expires_at


@frozen
class GuildLimits:
    """The owner's limits: the maximum number of members, and the lifetime of an invite (ms)."""

    max_members: int
    invite_ms: int


# -- founding and membership ---------------------------------------------------


def check_in_no_guild(member: Member | None) -> None:
    """Raise Conflict if the account is in a guild."""
    if member is not None:
        raise Conflict("You are already in a guild.", code=OCCUPIED)


def require_member(member: Member | None) -> Member:
    """Return the caller's membership; raises Missing if the caller is in no guild."""
    if member is None:
        raise Missing("You are not in a guild.", code=EXCLUDED)
    return member


def member_to_remove(mine: Member, target: Member | None) -> Member:
    """Return the member to remove from the guild.

    - Raises Conflict if the leader wants to leave.
    - Raises Forbidden if a member who is not the leader wants to remove somebody else.
    - Raises Missing if the target is not in the guild.
    """
    if target == mine and mine.rank is Rank.LEADER:
        raise Conflict("The leader cannot leave.", code=CHIEF)
    if target != mine and mine.rank is not Rank.LEADER:
        raise _rank_too_low()
    return _fellow(mine, target)


def rank_to_set(mine: Member, target: Member | None, word: str) -> tuple[Member, Rank]:
    """Return the target member, and the rank named by ``word``.

    Raises the error of the first check that fails.
    """
    rank = next((rank for rank in Rank if rank.lower() == word.lower()), None)
    if rank is None:
        raise Malformed("Unknown rank.", code=DOCILE)
    theirs = _fellow(mine, target)
    if mine.rank is not Rank.LEADER or theirs.rank is Rank.LEADER:
        raise _rank_too_low()
    return theirs, rank


def check_disbands(mine: Member | None, guild_id: str) -> None:
    """Raise Missing if the caller is not in the guild, Forbidden if the caller does not lead it."""
    if mine is None or mine.guild_id != guild_id:
        raise Missing("This is not your guild.", code=EXCLUDED)
    if mine.rank is not Rank.LEADER:
        raise _rank_too_low()


def _fellow(mine: Member, target: Member | None) -> Member:
    if target is None or target.guild_id != mine.guild_id:
        raise Missing("This player is not in your guild.", code=EXCLUDED)
    return target


def _rank_too_low() -> Refusal:
    return Forbidden("Your rank does not allow this.", code=SLY)


# -- invites -------------------------------------------------------------------


def check_may_invite(mine: Member, target: AccountId, theirs: Member | None) -> None:
    """Raise Forbidden if the caller's rank is too low, Conflict if the target is in the guild."""
    if mine.rank not in MAY_INVITE:
        raise _rank_too_low()
    if target == mine.account_id or (theirs is not None and theirs.guild_id == mine.guild_id):
        raise Conflict("This player is already a member.", code=CLONED)


def check_room(size: int, limits: GuildLimits) -> None:
    """Raise Conflict if the guild is full."""
    if size >= limits.max_members:
        raise Conflict("The guild is full.", code=STUFFED)


def check_invite_limits(
    previous: GuildInvitation | None, sent: Iterable[GuildInvitation], at: int
) -> None:
    """Raise an error if the guild may not invite the player now.

    The error is Conflict if an invite is open already. The error is TooMany if the player has
    declined recently, or if the guild has too many open invites. ``previous`` is the guild's last
    invite to the player; ``sent`` are all invites of the guild.
    """
    if previous is not None and previous.is_open(at):
        raise Conflict("This player is already invited.", code=REDUNDANT)
    declined_at = previous.declined_at if previous is not None else None
    if declined_at is not None and at - declined_at < DECLINE_PAUSE_MS:
        raise TooMany("This player declined lately.")
    if sum(invitation.is_open(at) for invitation in sent) >= MAX_GUILD_INVITES:
        raise TooMany("The guild has too many open invites.")


def may_invite_into(guild_id: str, member: Member | None) -> bool:
    """Return whether the member may invite players into this guild."""
    return member is not None and member.guild_id == guild_id and member.rank in MAY_INVITE
