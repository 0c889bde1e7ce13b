"""Requests and replies between metagame and deploy server. Spec: 2 §4 Deploy server."""

from __future__ import annotations

from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.deploy.fleet import GameServerRecord
from svcserver.kernel.launch_requests import MAX_PLAYERS, LaunchRequest, check, is_match, is_player
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import AtMost, TextWithNul, pascal_case, spelled, text, text_where

MOST_HEARD = 1_000
PlayerId = Annotated[str, text_where(is_player, "an account id")]


@spelled(pascal_case)
@frozen
class LaunchWish:
    """A request to launch a game server, for these account ids."""

    game_mode: TextWithNul | None = None
    game_args: TextWithNul | None = None
    hunt_id: TextWithNul | None = None
    expected_players: Annotated[tuple[PlayerId, ...], AtMost(MAX_PLAYERS)] | None = None

    def checked(self) -> LaunchRequest:
        """The validated request; raises Malformed."""
        return check(self.game_mode, self.game_args, self.hunt_id, self.expected_players or ())


def match_of(sent: str | None) -> str:
    """The match of a launch as its header names it, empty where it names none; raises Malformed."""
    if sent is not None and not is_match(sent):
        raise Malformed("X-Svc-Match must be a match id")
    return sent or ""


@spelled(pascal_case)
@frozen
class HandlingWish:
    """Start a kind (city, dojo), or stop or restart one game server."""

    act: Annotated[str, text(1, 16)]
    id: Annotated[str, text(0, 64)] = ""
    kind: Annotated[str, text(0, 16)] = ""


@spelled(pascal_case)
@frozen
class HeardWish:
    """Game servers, by id, of whose players a heartbeat has just come."""

    ids: Annotated[tuple[Annotated[str, text(1, 64)], ...], AtMost(MOST_HEARD)]


class HeardReply(TypedDict):
    """How many of them run here."""

    known: int


class Handled(TypedDict):
    """It is done; the server that runs now, null after a stop."""

    id: str | None


class Console(TypedDict):
    """The last lines that a game server has printed."""

    lines: list[str]


class HandedOut(TypedDict):
    """The game server's UDP address."""

    host: str
    port: int


class GameServers(TypedDict):
    """The reply of ``GET /gameservers``: those that run now."""

    servers: list[GameServerRecord]


class KeyReply(TypedDict):
    """Whether the key belongs to a running game server."""

    known: bool
