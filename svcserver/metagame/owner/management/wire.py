"""Reply shapes of the server status and the online list. Spec: 2 §2."""

from __future__ import annotations

from typing import TypedDict

from svcserver.kernel.shapes import Moment
from svcserver.kernel.times import iso
from svcserver.metagame.owner.management.rules import Instance, Status
from svcserver.metagame.play.matches import Sent
from svcserver.metagame.play.presence.rules import Beat, Place


class PlayerReply(TypedDict):
    """A player online, by name, and where in the game that is.

    ``instance`` is the id of an entry of ``instances``, null outside the game servers listed.
    """

    name: str
    where: Place
    instance: str | None


class InstanceReply(TypedDict):
    """One of the running game servers."""

    id: str
    kind: str | None
    title: str
    map: str
    behemoth: str | None
    players: int
    maxPlayers: int | None
    startedAt: str | None


class ServerStatusReply(TypedDict):
    """What launchers and status pages show of a host.

    Strangers get it ``limited``: without players and instances.
    """

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
    """An online player; the last two are null outside a hunt that we sent them to."""

    UserId: str
    Map: str
    HuntId: str | None
    EnteredHuntAt: Moment | None


def show_status(status: Status) -> ServerStatusReply:
    """The reply with the server status."""
    return {
        "name": status.name,
        "online": True,
        "version": status.build.version,
        "commit": status.build.commit,
        "sourceUrl": status.build.source_url,
        "registration": status.registration,
        "playersOnline": len(status.players),
        "players": [
            {"name": one.name, "where": one.where, "instance": one.instance}
            for one in status.players
        ],
        "instances": [show_instance(one) for one in status.instances],
        "contentPort": status.content_port,
        "uptimeSeconds": status.uptime_s,
        "limited": status.limited,
    }


def show_instance(one: Instance) -> InstanceReply:
    """The entry of a game server."""
    return {
        "id": one.id,
        "kind": one.kind,
        "title": one.title,
        "map": one.map,
        "behemoth": one.behemoth,
        "players": one.players,
        "maxPlayers": one.max_players,
        "startedAt": one.started_at,
    }


def show_online(beat: Beat, sent: Sent | None) -> OnlineEntry:
    """The entry of a player."""
    return {
        "UserId": beat.account_id,
        "Map": beat.map,
        "HuntId": None if sent is None else sent.hunt_id,
        "EnteredHuntAt": None if sent is None else iso(sent.at),
    }
