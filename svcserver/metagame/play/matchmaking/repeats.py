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


def is_older(entry: Entry, now: float, repeat: Repeat) -> bool:
    """Whether the match was there when the request came: others may lead a player to a newer."""
    return not repeat.is_before(round(entry.match.created_at * 1000), round(now * 1000))
