"""Reply shapes of the server status and the online list. Spec: 2 §2."""

from __future__ import annotations

from typing import TypedDict

from svcserver.kernel.json import Json
from svcserver.kernel.times import iso
from svcserver.metagame.play.matches import Sent
from svcserver.metagame.play.presence.store import Beat


class PlayerStatus(TypedDict):
    """An online player."""

    name: str
    where: str
    instance: str | None


class ServerStatusReply(TypedDict):
    """The server status."""

    name: str
    online: bool
    version: str
    commit: str
    sourceUrl: str
    registration: str
    playersOnline: int
    players: list[PlayerStatus]
    instances: list[dict[str, Json]]
    contentPort: int | None
    uptimeSeconds: int
    limited: bool


class OnlineEntry(TypedDict):
    """An online player; the last two are null outside a hunt that we sent them to."""

    UserId: str
    Map: str
    HuntId: str | None
    EnteredHuntAt: str | None


def show_online(beat: Beat, sent: Sent | None) -> OnlineEntry:
    """The entry of a player."""
    return {
        "UserId": beat.account_id,
        "Map": beat.map,
        "HuntId": None if sent is None else sent.hunt_id,
        "EnteredHuntAt": None if sent is None else iso(sent.at),
    }
