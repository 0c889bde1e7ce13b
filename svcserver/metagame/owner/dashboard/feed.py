"""The feed of the evening: who came, hunted and left, told from where players are."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svcserver.kernel.every import Every
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.play.matches import Sent
from svcserver.metagame.play.presence.rules import Beat, Place, place

EVERY_S = 5.0
KEPT = 100  # lines
MOST_NAMES = 4  # of one line; the others are counted
ACTS = {
    Place.CITY: "went to the city",
    Place.DOJO: "went to the dojo",
    Place.TUTORIAL: "began the tutorial",
}


@frozen
class Spot:
    """Where a player is; ``hunt`` is the same for all who hunt together, empty if unknown."""

    where: Place
    hunt: str = ""
    title: str = ""


@frozen
class Line:
    """What happened: ``who`` did ``what``; ``at`` in epoch seconds."""

    number: int
    at: float
    who: Sequence[str]
    what: str


def changes(before: Mapping[str, Spot], after: Mapping[str, Spot]) -> list[tuple[list[str], str]]:
    """What happened between two looks: names, and what they did; together what was one act."""
    done: dict[tuple[str, str], list[str]] = {}
    for name, spot in after.items():
        what = _act(before.get(name), spot)
        if what:
            done.setdefault((what, spot.hunt), []).append(name)
    for name in before:
        if name not in after:
            done.setdefault(("left", ""), []).append(name)
    return [(names, what) for (what, _), names in done.items()]


def _act(was: Spot | None, spot: Spot) -> str:
    same = was is not None and was.where is spot.where
    if was is not None and same and (was.hunt == spot.hunt or "" in (was.hunt, spot.hunt)):
        return ""
    if spot.where is Place.HUNT:
        return f"began a hunt: {spot.title}" if spot.title else "began a hunt"
    return "came online" if was is None else ACTS.get(spot.where, "")


@define
class Feed:
    """The last ``KEPT`` lines since the metagame began."""

    lines: deque[Line] = field(factory=lambda: deque(maxlen=KEPT), init=False)
    _count: int = field(default=0, init=False)
    _seen: Mapping[str, Spot] | None = field(default=None, init=False)

    def take(self, spots: Mapping[str, Spot], now: float) -> None:
        """Compare with the last look; ``now`` in epoch seconds."""
        if self._seen is not None:
            for who, what in changes(self._seen, spots):
                self._count += 1
                self.lines.append(Line(self._count, now, who, what))
        self._seen = spots

    def newest(self, count: int) -> list[Line]:
        """The newest lines, the newest first."""
        return list(reversed(self.lines))[:count]


def named(who: Sequence[str]) -> str:
    """``Ada, Bo and Cleo``; of many only the first."""
    names = list(who)
    if len(names) > MOST_NAMES:
        names = [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@frozen
class Spots:
    """Reads where everybody is, without asking the deploy server."""

    online: Callable[[], Awaitable[list[tuple[Beat, Sent | None]]]]
    directory: Directory
    titles: Mapping[str, str]  # of hunts, by id
    city_map: str

    async def look(self) -> dict[str, Spot]:
        """Where everybody online is, by user name."""
        found = await self.online()
        names = await self.directory.names(beat.account_id for beat, _ in found)
        spots = {}
        for beat, sent in found:
            name = names.get(beat.account_id)
            if name is None:
                continue
            hunt, title = "", ""
            if sent is not None:
                hunt = f"{sent.hunt_id} {sent.server.port}"
                title = self.titles.get(sent.hunt_id, "")
            spots[name] = Spot(place(beat.map, beat.state, self.city_map), hunt, title)
        return spots


def feed_watch(
    clock: IReactorTime, feed: Feed, spots: Spots, wall_clock: Callable[[], float]
) -> Every:
    """The service that looks every ``EVERY_S``."""

    def look() -> Deferred[None]:
        looked = Deferred.fromCoroutine(spots.look())
        return looked.addCallback(lambda found: feed.take(found, wall_clock()))

    return Every(clock, EVERY_S, look, "the look at who is where")
