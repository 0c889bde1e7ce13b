"""What the metagame sends to the deploy server, and reads of it. Spec: 2 §4 Deploy server."""

from __future__ import annotations

from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.deploy.fleet import GameServerRecord
from svcserver.kernel.launch_requests import MAX_PLAYERS, LaunchRequest, check, is_player
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.kernel.shapes import AtMost, TextWithNul, pascal_case, spelled, text_where
from svcserver.web.routes import Answer

PlayerId = Annotated[str, text_where(is_player, "an account id")]


@spelled(pascal_case)
@frozen
class LaunchWish:
    """What shall be launched, and for whom."""

    game_mode: TextWithNul | None = None
    game_args: TextWithNul | None = None
    hunt_id: TextWithNul | None = None
    expected_players: Annotated[tuple[PlayerId, ...], AtMost(MAX_PLAYERS)] | None = None

    def checked(self) -> LaunchRequest:
        """In the form in which it may be launched; raises Malformed."""
        return check(self.game_mode, self.game_args, self.hunt_id, self.expected_players or ())


class HandedOut(TypedDict):
    """Where the player goes."""

    host: str
    port: int


class GameServers(TypedDict):
    """Every game server alive now."""

    servers: list[GameServerRecord]


class KeyReply(TypedDict):
    """Whether the key belongs to a launch whose game server lives."""

    known: bool


def refuse(status: int, refusal: Refusal) -> Answer:
    """``bad_request`` in words; every other refusal is bare."""
    if isinstance(refusal, Malformed):
        return Answer(status, {"error": "bad_request", "message": refusal.message})
    return Answer(status)
