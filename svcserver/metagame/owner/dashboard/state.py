"""Data for the dashboard that no feature owns; ``composition.py`` and ``service.py`` fill it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field, frozen

from svcserver.metagame.owner.dashboard.history import History
from svcserver.web.logs import LogLines
from svcserver.web.tail import LogTail

MAX_ROOMS = 200
MAX_NAMES = 60


@frozen
class ChatRoom:
    """An occupied chat room; ``id`` is that of its party or guild, else empty.

    ``names`` are those of the first ``MAX_NAMES`` occupants.
    """

    room: str
    kind: str
    id: str
    count: int
    names: Sequence[str]


@frozen
class ChatFigures:
    """The chat's state: numbers of connections and accounts, and rooms, fullest first."""

    connections: int
    people: int
    room_count: int
    rooms: Sequence[ChatRoom]


@define
class DashboardState:
    """``chat`` is None without chat; ``folder`` is the host's folder of env files, if any."""

    health: History = field(factory=History)
    log: LogTail = field(factory=LogTail)
    chat: Callable[[], ChatFigures] | None = None
    folder: Path | None = None

    def attach(self, lines: LogLines, env_file: str | None) -> None:
        """Keep the last lines of the log, and know the folder of the env file, if there is one."""
        self.folder = Path(env_file).parent if env_file else None
        self.log.out = lines.out
        lines.out = self.log  # it passes them on
