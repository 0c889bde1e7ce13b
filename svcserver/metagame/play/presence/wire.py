"""Request and reply shapes of presence. Spec: 1 §4 Status."""

from __future__ import annotations

from typing import TypedDict

from attrs import frozen

from svcserver.kernel.shapes import Lenient, TextWithNul

NEXT_BEAT = b"20000"  # milliseconds until the client's next heartbeat


@frozen
class Heartbeat:
    """The player's map (path or bare name) and state; in menus there may be only a state."""

    map: Lenient[TextWithNul] = ""
    state: Lenient[TextWithNul] = ""


class OnlineCount(TypedDict):
    """The number of players heard from in the last 90 seconds."""

    NumActivePlayers: int
