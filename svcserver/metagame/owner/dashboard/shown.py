"""What the dashboard shows of things that no feature owns: filled in ``service.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from attrs import define, field

from svcserver.metagame.owner.dashboard.history import History
from svcserver.web.tail import Tail

MAX_ROOMS = 200
MAX_NAMES = 60


class ChatRoom(TypedDict):
    """A room with somebody in it; ``id`` is of its party or guild, else empty.

    ``names`` are the first of them.
    """

    room: str
    kind: str
    id: str
    count: int
    names: list[str]


class ChatFigures(TypedDict):
    """The chat now: connections, accounts behind them, rooms with the fullest first."""

    connections: int
    people: int
    roomCount: int
    rooms: list[ChatRoom]


@define
class Shown:
    """``chat`` is None while there is no chat; ``folder`` holds the host's env files, if any."""

    health: History = field(factory=History)
    log: Tail = field(factory=Tail)
    chat: Callable[[], ChatFigures] | None = None
    folder: Path | None = None
