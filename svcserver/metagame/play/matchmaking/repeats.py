"""What a request that was sent twice means by a player's place; see ``kernel/repeats.py``."""

from __future__ import annotations

from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.repeats import Repeat
from svcserver.metagame.play.matches import Entry, State


def is_answer(entry: Entry, player: AccountId, wish: LaunchRequest) -> bool:
    """Whether this very wish has led there, and nobody was told yet where to go."""
    match = entry.match
    asked = match.mode, match.args, match.hunt_id
    return (
        asked == (wish.game_mode, wish.game_args, wish.hunt_id)
        and match.state is not State.FAILED
        and player not in match.told
    )


def is_led_since(entry: Entry, player: AccountId, now: float, repeat: Repeat) -> bool:
    """Whether another has led the player there since the request came.

    One's own match is meant whenever it was made: it may be the repeat of what was asked before.
    """
    match = entry.match
    by_another = match.leader not in (None, player)
    return by_another and repeat.is_before(round(match.created_at * 1000), round(now * 1000))
