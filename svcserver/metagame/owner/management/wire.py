"""Reply shapes of the server status and the online list. Spec: 2 §2."""

from typing import TypedDict

from svcserver.kernel.shapes import Moment
from svcserver.kernel.times import iso
from svcserver.metagame.owner.management.rules import RunningGameServer, Status
from svcserver.metagame.play.matches import Sent
from svcserver.metagame.play.presence.rules import Beat, Place


class PlayerReply(TypedDict):
    """An online player: the name and the place in the game.

    ``instance`` is the id of the player's game server. It is null if the status does not list that
    game server.
    """

    name: str
    where: Place
    instance: str | None


class InstanceReply(TypedDict):
    """A running game server."""

    id: str
    kind: str | None
    title: str
    map: str
    behemoth: str | None
    players: int
    maxPlayers: int | None
    startedAt: str | None


class ServerStatusReply(TypedDict):
    """The status of a host; if ``limited``, the lists of players and instances are empty."""

    name: str
    online: bool
    version: str
    commit: str
    sourceUrl: str
    registration: str
    playersOnline: int
    players: list[PlayerReply]
    instances: list[InstanceReply]
    contentPort: int | None
    uptimeSeconds: int
    limited: bool


class OnlineEntry(TypedDict):
    """An online player; ``HuntId`` and ``EnteredHuntAt`` are null if the player is in no hunt."""

    UserId: str
    Map: str
    HuntId: str | None
    EnteredHuntAt: Moment | None


def show_status(status: Status) -> ServerStatusReply:
    """Return the reply with the server status."""
    return {
        "name": status.name,
        "online": True,
        "version": status.build.version,
        "commit": status.build.commit,
        "sourceUrl": status.build.source_url,
        "registration": status.registration,
        "playersOnline": len(status.players),
        "players": [
            {"name": player.name, "where": player.where, "instance": player.instance}
            for player in status.players
        ],
        "instances": [show_instance(instance) for instance in status.instances],
        "contentPort": status.content_port,
        "uptimeSeconds": status.uptime_s,
        "limited": status.limited,
    }


def show_instance(instance: RunningGameServer) -> InstanceReply:
    """Return the status entry of a game server."""
    return {
        "id": instance.id,
        "kind": instance.kind,
        "title": instance.title,
        "map": instance.map,
        "behemoth": instance.behemoth,
        "players": instance.players,
        "maxPlayers": instance.max_players,
        "startedAt": instance.started_at,
    }


def show_online(beat: Beat, sent: Sent | None) -> OnlineEntry:
    """Return the list entry of an online player."""
    return {
        "UserId": beat.account_id,
        "Map": beat.map,
        "HuntId": None if sent is None else sent.hunt_id,
        "EnteredHuntAt": None if sent is None else iso(sent.at),
    }
