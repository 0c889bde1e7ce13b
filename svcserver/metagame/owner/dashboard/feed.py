"""The feed of the evening: who came, hunted and left, told from where players are.

It lies on the board, as does where everybody was at the last look: whichever worker looks, what it
finds is told once, and each shows all of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.kernel.every import Every
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.play.matches import Sent
from svcserver.metagame.play.presence.rules import Beat, Place, place

EVERY_S = 5.0
LATE_S = 60.0  # so long a look is under way at most; one much older is of a clock put back
KEPT = 100  # lines
KEPT_S = 24 * 3600.0  # since the last one
MOST_NAMES = 4  # of one line; the others are counted
ONLY = ""  # the key of the only entry
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
    """What happened: ``who``, the first of ``count`` players, did ``what``.

    ``at`` in epoch seconds.
    """

    number: int
    at: float
    who: tuple[str, ...]
    count: int
    what: str


@frozen
class Look:
    """Where everybody was, by user name; ``at``: epoch seconds of the board's clock."""

    at: float
    spots: tuple[tuple[str, Spot], ...]


# both are only shown, and grant nothing; a look is large
LOOK = Kind("evening_look", Look, lives_s=KEPT_S, sealed=False)
LINES = Kind("evening", tuple[Line, ...], lives_s=KEPT_S, sealed=False)


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


@frozen
class Feed:
    """The last ``KEPT`` lines, of all workers and whichever began when."""

    board: Board

    def take(self, at: float, spots: Mapping[str, Spot]) -> Deferred[None]:
        """Tell what is new since the last look of any worker; an older one has nothing to tell."""
        look = Look(at, tuple(sorted(spots.items())))

        def work(transaction: BoardTransaction) -> None:
            last = transaction.get(LOOK, ONLY)
            if last is not None and (at <= last.at < at + LATE_S or last.spots == look.spots):
                return
            transaction.put(LOOK, ONLY, look)
            if last is not None:
                _tell(transaction, changes(dict(last.spots), spots), at)

        return self.board.transact(work, near=[(LOOK, ONLY), (LINES, ONLY)])

    def newest(self) -> Deferred[list[Line]]:
        """All lines, the newest first."""

        def work(transaction: BoardTransaction) -> list[Line]:
            told = transaction.get(LINES, ONLY) or ()
            return [*told[::-1]]

        return self.board.transact(work, near=[(LINES, ONLY)])


def _tell(
    transaction: BoardTransaction, done: Sequence[tuple[Sequence[str], str]], at: float
) -> None:
    told = transaction.get(LINES, ONLY) or ()
    number = told[-1].number if told else 0
    fresh = (
        Line(number + more, at, tuple(who[:MOST_NAMES]), len(who), what)
        for more, (who, what) in enumerate(done, 1)
    )
    if done:
        transaction.put(LINES, ONLY, (*told, *fresh)[-KEPT:])


@frozen
class Spots:
    """Reads where everybody is, without asking the deploy server."""

    online: Callable[[], Awaitable[tuple[float, list[tuple[Beat, Sent | None]]]]]
    directory: Directory
    titles: Mapping[str, str]  # of hunts, by id
    city_map: str

    async def look(self) -> tuple[float, dict[str, Spot]]:
        """When it was looked, and where everybody online is, by user name."""
        at, found = await self.online()
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
        return at, spots


def feed_watch(clock: IReactorTime, feed: Feed, spots: Spots) -> Every:
    """The service that looks every ``EVERY_S``."""

    async def look() -> None:
        await feed.take(*await spots.look())

    return Every(clock, EVERY_S, lambda: Deferred.fromCoroutine(look()), "the look at who is where")
