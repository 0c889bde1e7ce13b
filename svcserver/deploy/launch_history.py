"""The history of launches: which game servers ran, how each ended, and which matches are over."""

from collections import deque
from pathlib import Path
from typing import TypedDict, cast

from attrs import define, field
from twisted.logger import Logger

from svcserver.deploy.fleet import GameServer
from svcserver.deploy.hunts import Launch
from svcserver.kernel import json
from svcserver.kernel.recent import Bounded
from svcserver.kernel.times import iso

log = Logger()

MAX_LAUNCHES = 200  # launches
MAX_BYTES = 256 * 1024  # of a file; one entry has about 500
MOST_MATCHES = 16_384  # more matches than end while a launch may be repeated
MATCHES_BYTES = MOST_MATCHES * 37
LONGEST = 300  # characters of a reason


class PastLaunch(TypedDict):
    """A game server that has ended, or a launch that failed.

    ``how`` is ``code N``, ``signal NAME`` or ``failed``. ``reason`` says why the game server ended
    or the launch failed; it may be empty. A failed launch has no port (0).
    """

    id: str
    port: int
    kind: str
    map: str
    behemoth: str | None
    huntId: str | None
    matchmakerHuntId: str | None
    startedAt: str
    endedAt: str
    how: str
    reason: str


FAILED = "failed"
ALIKE = ("id", "kind", "map", "how", "reason")  # equal in repeated entries


@define
class LaunchHistory:
    """The last ``MAX_LAUNCHES`` launches, which are also stored in a file."""

    path: Path | None = None
    count: int = field(default=0, init=False)  # changes whenever the list does
    _launches: deque[PastLaunch] = field(factory=lambda: deque(maxlen=MAX_LAUNCHES), init=False)
    _file: Bounded | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self.path is None:
            return
        self._file = Bounded(self.path, MAX_BYTES)
        for path in (self.path.with_name(f"{self.path.name}.1"), self.path):
            self._launches.extend(_load(path))
        self.count = len(self._launches)

    def newest(self) -> list[PastLaunch]:
        """Return the launches; the launch that ended last comes first."""
        return list(self._launches)[::-1]

    def ended(self, server: GameServer, at: float, how: str, reason: str = "") -> None:
        """Record that a game server has ended; ``at`` is in epoch seconds."""
        self._add(_entry(server.launch, server.id, server.port, server.started_at, at, how, reason))

    def failed(self, launch: Launch, at: float, reason: str) -> None:
        """Record that a launch failed."""
        self._add(_entry(launch, "", 0, at, at, FAILED, reason))

    def _add(self, entry: PastLaunch) -> None:
        """Add an entry; a repeated failure or restart only changes the time of the last entry."""
        self.count += 1
        last = self._launches[-1] if self._launches else None
        if last is not None and all(last[name] == entry[name] for name in ALIKE):  # type: ignore[literal-required]
            self._launches[-1] = entry
            return
        self._launches.append(entry)
        if self._file is not None:
            self._file.keep(json.dump(entry).decode() + "\n")


def _entry(
    launch: Launch, server_id: str, port: int, started: float, ended: float, how: str, reason: str
) -> PastLaunch:
    return {
        "id": server_id,
        "port": port,
        "kind": launch.kind.value,
        "map": launch.map,
        "behemoth": launch.behemoth,
        "huntId": launch.hunt_id,
        "matchmakerHuntId": launch.matchmaker_hunt,
        "startedAt": iso(started),
        "endedAt": iso(ended),
        "how": how,
        "reason": reason[:LONGEST],
    }


@define
class EndedMatches:
    """The matches whose hunts must not start again, even if the metagame repeats a launch.

    Their hunts have ended, or may already have started. The matches are also stored in a file.
    """

    path: Path | None = None
    _matches: dict[str, None] = field(factory=dict, init=False)  # the oldest first
    _file: Bounded | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self.path is None:
            return
        self._file = Bounded(self.path, MATCHES_BYTES)
        for path in (self.path.with_name(f"{self.path.name}.1"), self.path):
            for line in filter(None, _lines(path, MATCHES_BYTES)):
                self._remember(line.decode(errors="replace"))

    def __contains__(self, match_id: str) -> bool:
        return match_id in self._matches

    def add(self, match_id: str) -> None:
        """Add a match; an empty id is ignored."""
        if match_id and match_id not in self._matches:
            self._remember(match_id)
            if self._file is not None:
                self._file.keep(f"{match_id}\n")

    def _remember(self, match_id: str) -> None:
        self._matches[match_id] = None
        if len(self._matches) > MOST_MATCHES:
            del self._matches[next(iter(self._matches))]


def _lines(path: Path, most: int) -> list[bytes]:
    """Return the lines in the last 2 * ``most`` bytes of a file; without a file, an empty list."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 2 * most))
            return file.read(2 * most).split(b"\n")
    except OSError:  # there is no file yet
        return []


def _load(path: Path) -> list[PastLaunch]:
    launches = []
    for line in _lines(path, MAX_BYTES)[-MAX_LAUNCHES - 1 :]:
        try:
            entry = json.parse(line)
        except ValueError:  # a line cut off by a crash, or the empty last line
            continue
        if isinstance(entry, dict) and set(entry) == set(PastLaunch.__annotations__):
            launches.append(cast(PastLaunch, entry))
    return launches
