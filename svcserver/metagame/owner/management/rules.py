"""Values of the server status: where players are. Spec: 2 §2 Server status."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.metagame.owner.build import Build
from svcserver.metagame.play.presence.rules import Place


@frozen
class Whereabouts:
    """An online player's kind of place and map."""

    account_id: AccountId
    where: Place
    map: str


@frozen
class Instance:
    """A running game server; ``kind`` and ``started_at`` as the deploy server says it."""

    id: str
    kind: str | None
    title: str
    map: str
    behemoth: str | None
    players: int
    max_players: int | None
    started_at: str | None


@frozen
class Placed:
    """The game servers, and the id of the one each player is in."""

    instances: Sequence[Instance]
    of_player: dict[AccountId, str]


@frozen
class PlayerStatus:
    """An online player, and the id of the game server they are in."""

    name: str
    where: Place
    instance: str | None


@frozen
class Status:
    """The server status; ``limited``: without players and instances, for strangers."""

    name: str
    build: Build
    registration: str
    players: Sequence[PlayerStatus]
    instances: Sequence[Instance]
    content_port: int | None
    uptime_s: int
    limited: bool


class Instances(Protocol):
    """Joins the deploy server's game servers with the players.

    Never fails: without an answer within 2 s the list is empty.
    """

    def place(self, players: list[Whereabouts]) -> Awaitable[Placed]: ...
