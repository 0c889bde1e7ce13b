"""The data classes of the server status, such as players' places. Spec: 2 §2 Server status."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.metagame.owner.build import Build
from svcserver.metagame.play.presence.rules import Place


@frozen
class Whereabouts:
    """An online player's map, and the kind of place that the map is."""

    account_id: AccountId
    where: Place
    map: str


@frozen
class RunningGameServer:
    """A running game server; the deploy server reports ``kind`` and ``started_at``."""

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
    """The game servers, and for each player id the game server that the player is on."""

    instances: Sequence[RunningGameServer]
    of_player: dict[AccountId, str]


@frozen
class PlayerStatus:
    """An online player and the id of the player's game server."""

    name: str
    where: Place
    instance: str | None


@frozen
class Status:
    """The server status; if ``limited``, it has no players and instances."""

    name: str
    build: Build
    registration: str
    players: Sequence[PlayerStatus]
    instances: Sequence[RunningGameServer]
    content_port: int | None
    uptime_s: int
    limited: bool
