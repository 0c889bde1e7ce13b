"""What a request of a friend means that was sent twice; see ``kernel/repeats.py``."""

from __future__ import annotations

from svcserver.board.board import Sheet
from svcserver.board.kinds import Kind
from svcserver.board.quota import MOST
from svcserver.kernel.ids import AccountId
from svcserver.kernel.repeats import Repeat
from svcserver.metagame.social.friends.rules import PENDING, Friendship

ENDED_S = 120.0  # how long it is known when two have parted, for who asked for the other before
ENDED = Kind("friends_ended", float, lives_s=ENDED_S, most=MOST)


def note_ended(sheet: Sheet, one: AccountId, other: AccountId, repeat: Repeat | None) -> None:
    """Note, before it is done, that what is between the two ends: as of when that was asked for."""
    at, key = sheet.now, _pair(one, other)
    if repeat is not None:
        at -= repeat.asked_ms_ago / 1000
        at = max(at, sheet.get(ENDED, key) or at)
    sheet.put(ENDED, key, at)


def has_ended(sheet: Sheet, one: AccountId, other: AccountId, repeat: Repeat) -> bool:
    """Whether that was after this was asked for: then it does not begin anew."""
    at = sheet.get(ENDED, _pair(one, other))
    now_ms = round(sheet.now * 1000)
    return at is not None and repeat.is_before(round(at * 1000), now_ms, late_ms=0)


def is_new(between: Friendship | None, other: AccountId, at: int, repeat: Repeat) -> bool:
    """Whether the other has asked for it since, so that its end was not meant."""
    if between is None or between.asked_by != other or between.status != PENDING:
        return False
    return repeat.is_before(between.created_at, at)


def may_have_accepted(between: Friendship, me: AccountId, at: int, repeat: Repeat | None) -> bool:
    """Whether the first try may be what made the two friends, so that nobody has told them."""
    if repeat is None or between.accepted_at is None or between.asked_by == me:
        return False
    return repeat.may_have_done(between.accepted_at, at)


def _pair(one: AccountId, other: AccountId) -> str:
    return f"{min(one, other)} {max(one, other)}"
