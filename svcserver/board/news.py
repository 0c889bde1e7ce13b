"""News between the processes that share an engine: one channel, one order, and a number for each.

The engine keeps the latest in a list. Whose connection was away reads there what came meanwhile,
and goes on behind the last piece that it has heard, if that stands there with the very same words:
a replica that took over may have forgotten the newest, and others told as many anew. Where it does
not, or a number is left out, those who must know are told to look for themselves. An engine that
began anew, empty, has another name for its life: all that it keeps of that is news to us.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.delivery import InOrder, deliver
from svcserver.board.engine import BoardAway, Engine
from svcserver.board.kinds import decode, encode
from svcserver.board.scripts import MOST_LATELY
from svcserver.kernel.throttle import Throttle

N = TypeVar("N")
log = Logger()

PAGES = 64, MOST_LATELY  # how many of the latest are read: most times few were missed
FORM = re.compile(rb"(0|[1-9][0-9]{0,14}) ")  # of a piece of news: its number comes first
BIRTH = b"0 "  # before the name that an engine gives to its life, told before its first news
TRIES, AGAIN_S = 10, 0.25  # to read them: the connection that asks may come later than this one


@frozen
class Lately:
    """The latest news that an engine keeps; ``life``: its name, empty before its first news."""

    life: bytes
    news: list[bytes]


@define(eq=False, slots=False)
class NewsFeed:
    """Sends and receives the news of a board."""

    engine: Engine
    channel: bytes = field(init=False)
    _listeners: dict[str, tuple[type, list[Callable[[Any], None]]]] = field(
        factory=dict, init=False
    )
    _missed: list[Callable[[], None]] = field(factory=list, init=False)
    _arrived: InOrder[tuple[bytes, bool]] = field(init=False)  # each with whether it was read
    _heard: bytes | None = field(default=None, init=False)  # what was delivered last
    _known: bytes | None = field(default=None, init=False)  # the last that nothing brings us
    _life: bytes | None = field(default=None, init=False)  # of the engine; None: we could not read
    _connections: int = field(default=0, init=False)
    _joined: bool = field(default=False, init=False)
    _held: list[bytes] | None = field(default=None, init=False)  # while the latest are read
    _named: str = field(default="", init=False)
    _read: set[bytes] = field(factory=set, init=False)  # and may be pushed to us, too
    _waiting: list[tuple[int, int, Deferred[None]]] = field(factory=list, init=False)
    _order: Any = field(factory=count, init=False)
    _warned: Throttle = field(factory=Throttle, init=False)

    def __attrs_post_init__(self) -> None:
        self._arrived = InOrder(self._take)
        self.channel = f"svc:{self.engine.space}:news".encode()
        self.engine.hear(self._arrives, self._joins, self._lost)
        self.engine.subscribe(self.channel)

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        self._listeners.setdefault(_name(news), (news, []))[1].append(listener)

    def reads_as(self, name: str) -> None:
        self._named = name

    def when_missed(self, look: Callable[[], None]) -> None:
        self._missed.append(look)

    def told(self, news: list[object]) -> list[bytes]:
        """The news of an act in the form in which the script COMMIT takes it."""
        arguments: list[bytes] = []
        for one in news:
            name = "@".join([_name(type(one)), *getattr(one, "readers", ())])
            arguments += self.channel, name.encode() + b" " + encode(one, type(one))
        return arguments

    async def heard(self, number: int) -> None:
        """Wait until this process, too, has been told what has this number.

        Not where a listener itself asks, nor while nothing can be heard.
        """
        if self._arrived.busy or not self._joined:
            return
        if self._held is None and self._reached() >= number:
            return
        done: Deferred[None] = Deferred()
        heapq.heappush(self._waiting, (number, next(self._order), done))
        await done

    def _joins(self) -> None:
        self._joined, self._held = True, []
        self._connections += 1
        Deferred.fromCoroutine(self._catch_up(self._connections))

    async def _catch_up(self, connection: int) -> None:
        lately = await self._lately(connection)
        if self._joined and connection == self._connections and self._held is not None:
            self._go_on(lately)

    async def _lately(self, connection: int) -> Lately | None:
        """The latest news, at least back to what we have heard; None where they cannot be read."""
        for _ in range(TRIES):
            try:
                for most in PAGES:
                    news = await self.engine.ask("LRANGE", self.channel + b":lately", -most, -1)
                    life = await self.engine.ask("GET", self.channel + b":life")
                    found = Lately(life or b"", news)
                    if len(news) < most or connection == 1 or self._since(found) is not None:
                        break
            except BoardAway:
                await self.engine.pause(AGAIN_S)
                if connection != self._connections:
                    break
            else:
                return found if all(map(FORM.match, found.news)) else None
        return None

    def _go_on(self, lately: Lately | None) -> None:
        """Deliver what came while we were away, and then what came while we read that."""
        since = self._since(lately)
        held, self._held = self._held or [], None
        missed = since is None and self._connections > 1
        if since is None:
            since = self._anew(lately)
            self._heard = None
            self._known = lately.news[-1] if lately is not None and lately.news else None
        self._life = None if lately is None else lately.life
        self._arrived.add([*((one, True) for one in since), *((one, False) for one in held)])
        if missed:  # after what did arrive: it is for the rest alone
            self._tell_of_missed()
        self._release()

    def _since(self, lately: Lately | None) -> list[bytes] | None:
        """What was told after the last that we know of; None where nobody can tell."""
        last = self._heard or self._known
        if last is None or lately is None or not lately.news or self._is_another(lately.life):
            return None
        after = _number(last) - _number(lately.news[0]) + 1
        if after < 1 or lately.news[after - 1 : after] != [last]:
            return None
        return lately.news[after:]

    def _anew(self, lately: Lately | None) -> list[bytes]:
        """All that was told in the life of an engine that began after we were connected to one."""
        if lately is None or not lately.news or not self._is_another(lately.life):
            return []
        return lately.news if lately.news[0] == lately.life else []

    def _is_another(self, life: bytes) -> bool:
        return self._life is not None and life != self._life

    def _lost(self) -> None:
        self._joined, self._held = False, None
        waiting, self._waiting = self._waiting, []
        for _, _, done in waiting:
            if not done.called:
                done.callback(None)

    def _arrives(self, channel: bytes, message: bytes) -> None:
        if channel != self.channel:
            return
        if FORM.match(message) is None:
            self._warn("")
            return
        if self._held is not None:
            self._held.append(message)
            if len(self._held) >= MOST_LATELY:
                self._go_on(None)  # reading takes too long
            return
        self._arrived.add(((message, False),))
        if not self._arrived.busy:
            self._release()

    def _reached(self) -> int:
        """The number up to which nothing is to come."""
        return max(_number(one) for one in (self._known, self._heard, b"0") if one)

    def _release(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._reached():
            done = heapq.heappop(self._waiting)[2]
            if not done.called:
                done.callback(None)

    def _take(self, arrived: tuple[bytes, bool]) -> None:
        message, was_read = arrived
        if was_read:
            self._read.add(message)
        elif message in self._read:
            return  # it was delivered when it was read
        else:
            self._read.clear()
        last, self._heard = self._heard, message
        if message.startswith(BIRTH):
            self._life, self._known = message, None
        if message.endswith(b" "):  # of one so long the engine has kept the number alone
            self._tell_of_missed()
            return
        if last is not None and _number(message) != _number(last) + 1:
            self._tell_of_missed()  # also where the engine began anew
        self._deliver(message)

    def _deliver(self, message: bytes) -> None:
        _, _, said = message.partition(b" ")
        head, _, text = said.partition(b" ")
        name, *readers = head.decode(errors="replace").split("@")
        known = self._listeners.get(name)
        if known is None or (readers and self._named not in readers):
            return
        kind, listeners = known
        try:
            news: Any = decode(text, kind)
        except Exception:  # whatever it is, what follows it must be delivered
            self._warn(name)
            self._tell_of_missed()
            return
        for listener in listeners:
            deliver(listener, news)

    def _warn(self, name: str) -> None:
        if self._warned.due(name, self.engine.seconds()):
            log.warn("news of the engine that cannot be read: {name}", name=name or "not ours")

    def _tell_of_missed(self) -> None:
        log.info("news of other processes may have been missed")
        for look in self._missed:
            deliver(_call, look)


def _call(look: Callable[[], None]) -> None:
    look()


def _name(news: type) -> str:
    return f"{news.__module__}.{news.__qualname__}"


def _number(message: bytes) -> int:
    return int(message.partition(b" ")[0])
