"""Heartbeats and the number of players. Spec: 1 §4 Status, heartbeat; 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, TypedDict

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.waiting import with_fallback
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Lenient, OrEmpty, TextWithNul
from svcserver.kernel.signals import PlayerActive, Signal
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.once import Again
from svcserver.metagame.play.presence.rules import LONGEST, Beat
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, Feature, bare

NEXT_BEAT = b"20000"  # milliseconds until the client's next heartbeat


@frozen
class Heartbeat:
    """The player's map (a path or only the name) and state; in menus, the map may be missing."""

    map: Lenient[TextWithNul] = ""
    state: Lenient[TextWithNul] = ""


class OnlineCount(TypedDict):
    """The number of players seen in the last 90 seconds."""

    NumActivePlayers: int


@frozen
class PresenceActs:
    """The operations that mark players as online and count these players."""

    online: Online
    player_active: Signal[PlayerActive]

    async def beat(self, account_id: AccountId, map_path: str, state: str) -> None:
        """Mark the player as online on the map ``map_path``, and send ``player_active``."""
        there, doing = map_path[:LONGEST], state[:LONGEST]
        await self.online.mark_seen(account_id, there, doing)
        if self.player_active.listeners:
            self.player_active.send(PlayerActive(account_id, there, doing))

    async def count(self) -> int:
        """Return the number of players seen in the last 90 s."""
        return await self.online.count()


ONLINE_S = 90.0


# not sealed: a forged entry only shows a player as online
BEATS = Kind("online", Beat, lives_s=ONLINE_S, compared=False, listed=True, sealed=False)


@frozen
class Online:
    """The last heartbeat of each online player.

    The ``also_heard`` functions run in the transaction of each heartbeat.
    """

    board: Board
    also_heard: tuple[Callable[[BoardTransaction, AccountId], None], ...] = ()

    def mark_seen(self, account_id: AccountId, map_path: str, state: str) -> Deferred[None]:
        """Store a heartbeat in a transaction that reads nothing and is therefore never retried.

        If a heartbeat cannot be stored, it is dropped; the next heartbeat replaces it.
        """

        def work(transaction: BoardTransaction) -> None:
            transaction.put(BEATS, account_id, Beat(account_id, map_path, state, transaction.now))
            for follow in self.also_heard:
                follow(transaction, account_id)

        return with_fallback(self.board.transact(work), None)

    def forget(self, account_id: AccountId) -> Deferred[None]:
        """Remove the player from the list of online players."""
        return self.board.transact(lambda transaction: transaction.drop(BEATS, account_id))

    def all(self) -> Deferred[list[Beat]]:
        """Return the last heartbeat of each online player."""
        return self.board.transact(
            lambda transaction: [beat for _, beat in transaction.each(BEATS)]
        )

    def snapshot(self) -> Deferred[tuple[float, list[Beat]]]:
        """Return the time (epoch seconds), and the last heartbeat of each online player."""
        return self.board.transact(
            lambda transaction: (transaction.now, [beat for _, beat in transaction.each(BEATS)])
        )

    def count(self) -> Deferred[int]:
        return self.board.transact(lambda transaction: transaction.count(BEATS))


_NEXT_BEAT = Answer(200, NEXT_BEAT, content_type="text/plain; charset=utf-8")


@frozen
class PresenceRoutes:
    """The routes that receive heartbeats and show the number of online players."""

    routes: ClassVar[Routes] = Routes(bare)
    acts: PresenceActs
    on_beat: Callable[[AccountId, HttpRequest], object] | None = (
        None  # gets each player and request
    )

    @routes.row(
        "POST",
        "/heartbeat",
        access=Access.TOKEN,
        body=OrEmpty[Heartbeat],
        reply=str,
        again=Again.NATURAL,
    )
    async def beat(self, call: Call[Heartbeat]) -> Answer:
        """Mark the player as online; a heartbeat without a player token changes nothing."""
        account_id = call.caller.account
        if account_id is not None:
            if self.on_beat is not None and not call.caller.game_server:
                self.on_beat(account_id, call.request)
            await self.acts.beat(account_id, call.body.map, call.body.state)
        return _NEXT_BEAT

    @routes.row("GET", "/svc/api/PublicOnlineStats", access=Access.ACCOUNT_KEY, reply=OnlineCount)
    async def count(self, call: Call) -> Answer:
        """Return the number of online players."""
        return Answer(200, {"NumActivePlayers": await self.acts.count()})


def presence(
    parts: Parts, online: Online, on_beat: Callable[[AccountId, HttpRequest], object] | None
) -> Iterator[Feature]:
    """Yield the heartbeat routes; each heartbeat calls ``on_beat`` with its player and request."""
    yield PresenceRoutes(PresenceActs(online, parts.news.active), on_beat)
