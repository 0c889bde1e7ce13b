"""News between the processes that share an engine: one channel, one order, and a number for each.

By the number a process notices that it has missed some. It may have, too, whenever its connection
was away, whatever the number is then: a replica that takes over forgets the newest, and others may
have told as many anew. Then those who must know are told to look for themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from attrs import define, field
from cattrs import BaseValidationError
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.deliveries import InOrder, deliver
from svcserver.board.engine import BoardAway, Engine
from svcserver.board.kinds import decode, encode

N = TypeVar("N")
log = Logger()


@define(eq=False, slots=False)
class NewsFeed:
    """Sends and receives the news of a board."""

    engine: Engine
    channel: bytes = field(init=False)
    _listeners: dict[str, tuple[type, list[Callable[[Any], None]]]] = field(
        factory=dict, init=False
    )
    _missed: list[Callable[[], None]] = field(factory=list, init=False)
    _arrived: InOrder[bytes] = field(init=False)
    _last: int | None = field(default=None, init=False)  # the number of what was delivered last
    _before: int | None = field(default=None, init=False)  # that of the connection before
    _looked: int = field(default=0, init=False)  # what the engine said when this one began
    _joined: bool = field(default=False, init=False)
    _waiting: list[tuple[int, int, Deferred[None]]] = field(factory=list, init=False)
    _order: Any = field(factory=count, init=False)

    def __attrs_post_init__(self) -> None:
        self._arrived = InOrder(self._take)
        self.channel = f"svc:{self.engine.space}:news".encode()
        self.engine.hear(self._arrives, self._joins, self._lost)
        self.engine.subscribe(self.channel)

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        self._listeners.setdefault(_name(news), (news, []))[1].append(listener)

    def when_missed(self, look: Callable[[], None]) -> None:
        self._missed.append(look)

    def told(self, news: list[object]) -> list[bytes]:
        """The news of an act in the form in which the script COMMIT takes it."""
        arguments: list[bytes] = []
        for one in news:
            arguments += self.channel, _name(type(one)).encode() + b" " + encode(one, type(one))
        return arguments

    async def heard(self, number: int) -> None:
        """Wait until this process, too, has been told what has this number.

        Not where a listener itself asks, nor while nothing can be heard.
        """
        if (
            self._arrived.busy
            or not self._joined
            or (self._last is not None and self._last >= number)
        ):
            return
        done: Deferred[None] = Deferred()
        heapq.heappush(self._waiting, (number, next(self._order), done))
        await done

    def _joins(self) -> None:
        self._joined = True
        self._before, self._last = self._last, None
        Deferred.fromCoroutine(self._look())

    async def _look(self) -> None:
        """Learn the number of the last news; what came before it was not heard by us."""
        try:
            found = await self.engine.ask("GET", self.channel + b":told")
        except BoardAway:
            return  # that connection comes later: the next number shows what was missed
        if self._last is not None:
            return  # more came meanwhile, and told of it
        self._last = self._looked = 0 if found is None else int(found)
        if self._before is not None:
            self._tell_of_missed()
        self._release()  # what was told before this connection listened never comes

    def _lost(self) -> None:
        self._joined = False
        waiting, self._waiting = self._waiting, []
        for _, _, done in waiting:
            if not done.called:
                done.callback(None)

    def _arrives(self, channel: bytes, message: bytes) -> None:
        if channel == self.channel:
            self._arrived.add((message,))
            if not self._arrived.busy:
                self._release()

    def _release(self) -> None:
        while self._waiting and self._waiting[0][0] <= (self._last or 0):
            done = heapq.heappop(self._waiting)[2]
            if not done.called:
                done.callback(None)

    def _take(self, message: bytes) -> None:
        number, name, text = message.split(b" ", 2)
        self._count(int(number))
        known = self._listeners.get(name.decode())
        if known is None:
            return
        kind, listeners = known
        try:
            news: Any = decode(text, kind)
        except (ValueError, BaseValidationError):
            log.failure("news that cannot be read: {name}", name=name.decode())
            return
        for listener in listeners:
            deliver(listener, news)

    def _count(self, number: int) -> None:
        if self._last is not None and number <= self._looked:
            return  # the look at the number overtook it, and told of it as missed
        missed = self._before is not None if self._last is None else number != self._last + 1
        self._last, self._looked = number, 0  # smaller ones from now on: the engine began anew
        if missed:
            self._tell_of_missed()

    def _tell_of_missed(self) -> None:
        log.info("news of other processes may have been missed")
        for look in self._missed:
            deliver(lambda _, look=look: look(), None)  # type: ignore[misc]


def _name(news: type) -> str:
    return f"{news.__module__}.{news.__qualname__}"
