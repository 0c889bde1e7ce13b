"""The data classes of the server status. Spec: 2 §2 Server status."""

from collections.abc import Sequence

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.metagame.owner.build import Build
from svcserver.metagame.play.presence.rules import Place


@frozen
class Whereabouts:
    """The map on which an online player is, and the kind of that map."""

    account_id: AccountId
    where: Place
    map: str


@frozen
class RunningGameServer:
    """A running game server, with ``kind`` and ``started_at`` as the deploy server reports them."""

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
    """The running game servers, and for each player the id of the player's game server."""

    instances: Sequence[RunningGameServer]
    of_player: dict[AccountId, str]


@frozen
class PlayerStatus:
    """An online player, with the id of the player's game server if it is known."""

    name: str
    where: Place
    instance: str | None


@frozen
class Status:
    """The server status; if ``limited``, ``players`` and ``instances`` are empty."""

    name: str
    build: Build
    registration: str
    players: Sequence[PlayerStatus]
    instances: Sequence[RunningGameServer]
    content_port: int | None
    uptime_s: int
    limited: bool
