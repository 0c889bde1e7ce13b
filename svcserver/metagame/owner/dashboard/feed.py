"""The activity feed: the players who arrive, begin a hunt or leave, found by comparing snapshots.

The feed and the last snapshot of players are on the board (the store of live state, which all
workers share). So a change that several workers detect is recorded only once, and every worker
shows the whole feed.
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
LATE_S = 60.0  # a snapshot from this far in the future was stored before the clock was set back
MAX_EVENTS = 100  # events
KEPT_S = 24 * 3600.0  # since the newest event
MOST_NAMES = 4  # names per event; further players are only counted
ONLY = ""  # the key of the only entry
ACTS = {
    Place.CITY: "went to the city",
    Place.DOJO: "went to the dojo",
    Place.TUTORIAL: "began the tutorial",
}


@frozen
class Spot:
    """A player's place, such as the city; ``hunt`` identifies the player's hunt ("" if unknown)."""

    where: Place
    hunt: str = ""
    title: str = ""


@frozen
class FeedLine:
    """An event at ``at`` (epoch seconds): ``count`` players did ``what``.

    ``who`` has the names of the first few of these players.
    """

    number: int
    at: float
    who: tuple[str, ...]
    count: int
    what: str


@frozen
class Snapshot:
    """Each online player's user name and place; ``at`` is in epoch seconds of the board's clock."""

    at: float
    spots: tuple[tuple[str, Spot], ...]


# not sealed (no keyed hash): these entries grant nothing, and a snapshot is large
LOOK = Kind("evening_look", Snapshot, lives_s=KEPT_S, sealed=False)
LINES = Kind("evening", tuple[FeedLine, ...], lives_s=KEPT_S, sealed=False)


def changes(before: Mapping[str, Spot], after: Mapping[str, Spot]) -> list[tuple[list[str], str]]:
    """Return the events between two snapshots; each has the players' names and what they did."""
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
    """The last ``MAX_EVENTS`` events of all workers."""

    board: Board

    def take(self, at: float, spots: Mapping[str, Spot]) -> Deferred[None]:
        """Record what has changed since the last snapshot; ignore an outdated snapshot."""
        look = Snapshot(at, tuple(sorted(spots.items())))

        def work(transaction: BoardTransaction) -> None:
            last = transaction.get(LOOK, ONLY)
            if last is not None and (at <= last.at < at + LATE_S or last.spots == look.spots):
                return
            transaction.put(LOOK, ONLY, look)
            if last is not None:
                _record(transaction, changes(dict(last.spots), spots), at)

        return self.board.transact(work, near=[(LOOK, ONLY), (LINES, ONLY)])

    def newest(self) -> Deferred[list[FeedLine]]:
        """Return all events, newest first."""

        def work(transaction: BoardTransaction) -> list[FeedLine]:
            lines = transaction.get(LINES, ONLY) or ()
            return [*lines[::-1]]

        return self.board.transact(work, near=[(LINES, ONLY)])


def _record(
    transaction: BoardTransaction, events: Sequence[tuple[Sequence[str], str]], at: float
) -> None:
    lines = transaction.get(LINES, ONLY) or ()
    number = lines[-1].number if lines else 0
    fresh = (
        FeedLine(number + more, at, tuple(who[:MOST_NAMES]), len(who), what)
        for more, (who, what) in enumerate(events, 1)
    )
    if events:
        transaction.put(LINES, ONLY, (*lines, *fresh)[-MAX_EVENTS:])


@frozen
class Spots:
    """Reads each online player's place, such as the city.

    A place is derived from the player's last heartbeat, and from the game server to which
    matchmaking has sent the player.
    """

    online: Callable[[], Awaitable[tuple[float, list[tuple[Beat, Sent | None]]]]]
    directory: Directory
    titles: Mapping[str, str]  # hunt titles by hunt id
    city_map: str

    async def snapshot(self) -> tuple[float, dict[str, Spot]]:
        """Return the time of the board's clock, and each online player's user name and place."""
        at, players = await self.online()
        names = await self.directory.names(beat.account_id for beat, _ in players)
        spots = {}
        for beat, sent in players:
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
    """Return the service that updates the feed every ``EVERY_S``."""

    async def look() -> None:
        await feed.take(*await spots.snapshot())

    return Every(
        clock, EVERY_S, lambda: Deferred.fromCoroutine(look()), "the update of the activity feed"
    )
