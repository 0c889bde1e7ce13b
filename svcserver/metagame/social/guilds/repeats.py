"""Whether what a player asks of guilds was done already: for a request that was sent twice.

See ``kernel/repeats.py``.
"""

from __future__ import annotations

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.repeats import Repeat
from svcserver.kernel.signals import GuildChanged
from svcserver.metagame.social.guilds.rules import Guild, Guilds, Member, Rank


def invited(guilds: Guilds, me: AccountId, target: AccountId, at: int) -> Guild | None:
    """The caller's guild, where ``target`` is invited by them, or has come already."""
    mine, theirs = guilds.member(me), guilds.member(target)
    if mine is None or target == me:
        return None
    waiting = guilds.invite_to(mine.guild_id, target)
    is_asked = waiting is not None and waiting.inviter == me and waiting.is_open(at)
    return guilds.guild(mine.guild_id) if is_asked or _are_fellows(mine, theirs) else None


def has_joined(guilds: Guilds, me: AccountId, invite_id: str, at: int, repeat: Repeat) -> bool:
    """Whether the invite is gone, and its player joined a guild meanwhile: joining ends all.

    Which of them led there is not kept, so that it may have been another of the same moment.
    """
    mine = guilds.member(me)
    just = mine is not None and repeat.may_have_done(mine.joined_at, at)
    return just and guilds.invite(invite_id) is None


def has_declined(guilds: Guilds, me: AccountId, invite_id: str) -> bool:
    """Whether the invite is the player's, and declined."""
    found = guilds.invite(invite_id)
    return found is not None and found.account_id == me and found.declined_at is not None


def are_apart(guilds: Guilds, me: AccountId, target: AccountId, at: int, repeat: Repeat) -> bool:
    """Whether ``target`` is in no guild of the caller's; naming oneself: in none at all.

    Who has joined since it was asked for is not who was meant.
    """
    mine, theirs = guilds.member(me), guilds.member(target)
    if me == target:
        return mine is None
    if mine is None or mine.rank is not Rank.LEADER:
        return False
    is_new = theirs is not None and repeat.is_before(theirs.joined_at, at)
    return is_new or not _are_fellows(mine, theirs)


def parted(guilds: Guilds, me: AccountId, target: AccountId) -> GuildChanged | None:
    """What is to be told of two who ``are_apart``, as nobody may have heard of it."""
    mine = guilds.member(me)
    if mine is None:
        return GuildChanged("", (me,))
    is_back = _are_fellows(mine, guilds.member(target))
    return None if is_back else GuildChanged(mine.guild_id, (target,))


def has_rank(guilds: Guilds, me: AccountId, target: AccountId, word: str) -> bool:
    """Whether ``target``, of the caller's guild, has that rank.

    Raises Unavailable where an officer may have been given the guild, and have given it back.
    """
    mine, theirs = guilds.member(me), guilds.member(target)
    if mine is None or theirs is None or not _are_fellows(mine, theirs) or me == target:
        return False
    was = mine.rank is Rank.LEADER and theirs.rank is Rank.OFFICER
    if was and word.lower() == Rank.LEADER.lower():
        raise Unavailable("the guild may have been handed over, and back: look, and ask again")
    return theirs.rank.lower() == word.lower()


def _are_fellows(mine: Member, theirs: Member | None) -> bool:
    return theirs is not None and theirs.guild_id == mine.guild_id
