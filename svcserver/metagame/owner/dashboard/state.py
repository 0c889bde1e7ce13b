"""Dashboard data that belong to no feature; ``composition.py`` and ``service.py`` fill them."""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field, frozen

from svcserver.kernel.redaction import redact
from svcserver.metagame.owner.dashboard.history import HealthHistory
from svcserver.web.logs import LogLines
from svcserver.web.logwriter import LogDestination

MAX_LINES = 500  # lines
LONGEST = 2_000  # characters of a line


@define
class LogTail:
    """The last log lines; each line is also written to ``out``.

    The services never log secrets. As a second protection, ``after`` replaces text that looks like
    a secret.
    """

    out: LogDestination | None = None
    count: int = 0  # lines ever written
    _lines: deque[str] = field(factory=lambda: deque(maxlen=MAX_LINES), init=False)

    def write(self, text: str, /) -> object:
        for line in text.splitlines():
            self._lines.append(line[:LONGEST])
            self.count += 1
        return None if self.out is None else self.out.write(text)

    def flush(self) -> object:
        return None if self.out is None else self.out.flush()

    def after(self, number: int) -> list[str]:
        """Return the stored lines that follow the first ``number`` lines ever written."""
        new = min(max(0, self.count - number), len(self._lines))
        return [redact(line) for line in list(self._lines)[len(self._lines) - new :]]


GUILD_TITLES = {"Guild": "{}"}  # kind of room -> title, for rooms with a guild's id


@frozen
class ChatRoom:
    """An occupied chat room; ``id`` is its party's or guild's id, or empty for other rooms.

    ``names`` are the names of the first occupants only.
    """

    room: str
    kind: str
    id: str
    count: int
    names: Sequence[str]


@frozen
class ChatFigures:
    """The chat's connections, accounts and rooms; the fullest rooms come first."""

    connections: int
    people: int
    room_count: int
    rooms: Sequence[ChatRoom]


@define
class DashboardState:
    """The dashboard's own data; ``folder`` is the folder of the host's env files, if known."""

    health: HealthHistory = field(factory=HealthHistory)
    log: LogTail = field(factory=LogTail)
    chat: Callable[[], ChatFigures] | None = None
    folder: Path | None = None

    def attach(self, lines: LogLines, env_file: str | None) -> None:
        """Store the env file's folder, and keep the last log lines of ``lines`` in ``self.log``."""
        self.folder = Path(env_file).parent if env_file else None
        self.log.out = lines.out
        lines.out = self.log  # ``self.log`` passes each line on to the previous ``out``
