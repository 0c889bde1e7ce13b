"""The heartbeat and the count of players as they are sent. Spec: 1 §4 Status."""

from __future__ import annotations

from typing import TypedDict

from attrs import frozen

from svcserver.kernel.shapes import Lenient, TextWithNul

NEXT_BEAT = b"20000"  # milliseconds until the client's next heartbeat


@frozen
class Heartbeat:
    """The map's path or bare name; in the menus there may be only a state."""

    map: Lenient[TextWithNul] = ""
    state: Lenient[TextWithNul] = ""


class OnlineCount(TypedDict):
    """Heard from in the last 90 seconds."""

    NumActivePlayers: int
