"""Whether what a player asks of guilds was done already: for a request that was sent twice.

The gateway marks what it sends again because no answer came (``Call.repeated``).
"""

from __future__ import annotations

from svcserver.kernel.ids import AccountId
from svcserver.metagame.social.guilds.rules import Guild, Guilds

JUST_MS = 60_000  # an answer is lost, and its request sent again, within this


def invited(guilds: Guilds, me: AccountId, target: AccountId, at: int) -> Guild | None:
    """The caller's guild, where ``target`` is invited by them, or has come already."""
    mine, theirs = guilds.member(me), guilds.member(target)
    if mine is None or target == me:
        return None
    waiting = guilds.invite_to(mine.guild_id, target)
    is_asked = waiting is not None and waiting.inviter == me and waiting.is_open(at)
    is_in = theirs is not None and theirs.guild_id == mine.guild_id
    return guilds.guild(mine.guild_id) if is_asked or is_in else None


def has_joined(guilds: Guilds, me: AccountId, invite_id: str, at: int) -> bool:
    """Whether the invite is gone, and its player joined a guild just now: joining ends all."""
    mine = guilds.member(me)
    just = mine is not None and at - mine.joined_at <= JUST_MS
    return just and guilds.invite(invite_id) is None


def has_declined(guilds: Guilds, me: AccountId, invite_id: str) -> bool:
    """Whether the invite is the player's, and declined."""
    found = guilds.invite(invite_id)
    return found is not None and found.account_id == me and found.declined_at is not None


def are_apart(guilds: Guilds, me: AccountId, target: AccountId) -> bool:
    """Whether ``target`` is in no guild of the caller's; naming oneself: in none at all."""
    mine, theirs = guilds.member(me), guilds.member(target)
    if me == target:
        return mine is None
    return mine is not None and (theirs is None or theirs.guild_id != mine.guild_id)


def has_rank(guilds: Guilds, me: AccountId, target: AccountId, word: str) -> bool:
    """Whether ``target``, of the caller's guild, has that rank."""
    mine, theirs = guilds.member(me), guilds.member(target)
    if mine is None or theirs is None or theirs.guild_id != mine.guild_id or me == target:
        return False
    return theirs.rank.lower() == word.lower()
