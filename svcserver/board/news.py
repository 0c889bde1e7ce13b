"""The events that processes send each other, as numbered messages, through a live-state engine.

The engine keeps a list of the latest messages. After a reconnect, a process looks in the list for
the last message that it received, and delivers the later messages. The search compares number and
text, because a replica that took over may have lost the newest messages and reused their numbers.
If the message is not in the list, or a number is missing, the ``when_missed`` callbacks run.

If an engine loses its data, it gets a new id (the life id), and all messages in its list are new.
"""

import heapq
import re
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.delivery import InOrder, deliver
from svcserver.board.engine import BoardAway, BoardEngine
from svcserver.board.kinds import decode, encode
from svcserver.board.scripts import MOST_LATELY
from svcserver.kernel.throttle import Throttle

N = TypeVar("N")
log = Logger()

PAGES = 64, MOST_LATELY  # messages read at a time: usually few were missed
FORM = re.compile(rb"(0|[1-9][0-9]{0,14}) ")  # a message starts with its number
BIRTH = b"0 "  # the start of the message with the engine's life id
TRIES, AGAIN_S = 10, 0.25  # to read the list: the command connection may reconnect later


@frozen
class Lately:
    """The latest messages in the live-state engine.

    ``life`` changes when the engine loses its data. It is "" before the first message.
    """

    life: bytes
    news: list[bytes]


@define(eq=False, slots=False)
class NewsFeed:
    """The sender and receiver of a board's events."""

    engine: BoardEngine
    channel: bytes = field(init=False)
    _listeners: dict[str, tuple[type, list[Callable[[Any], None]]]] = field(
        factory=dict, init=False
    )
    _missed: list[Callable[[], None]] = field(factory=list, init=False)
    _arrived: InOrder[tuple[bytes, bool]] = field(init=False)  # True: read from the list
    _last: bytes | None = field(default=None, init=False)  # the last message delivered
    _known: bytes | None = field(default=None, init=False)  # the last message before listening
    _life: bytes | None = field(default=None, init=False)  # the engine's life id; None: unknown
    _connections: int = field(default=0, init=False)
    _joined: bool = field(default=False, init=False)
    _held: list[bytes] | None = field(default=None, init=False)  # received while the list is read
    _named: str = field(default="", init=False)
    _read: set[bytes] = field(factory=set, init=False)  # messages read, maybe to be received
    _waiting: list[tuple[int, int, Deferred[None]]] = field(factory=list, init=False)
    _order: Any = field(factory=count, init=False)
    _warned: Throttle = field(factory=Throttle, init=False)

    def __attrs_post_init__(self) -> None:
        self._arrived = InOrder(self._take)
        self.channel = f"svc:{self.engine.space}:news".encode()
        self.engine.on_messages(self._arrives, self._joins, self._leaves)
        self.engine.subscribe(self.channel)

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        self._listeners.setdefault(_name(news), (news, []))[1].append(listener)

    def reads_as(self, name: str) -> None:
        self._named = name

    def when_missed(self, look: Callable[[], None]) -> None:
        self._missed.append(look)

    def commit_arguments(self, news: list[object]) -> list[bytes]:
        """Return the arguments with which the script COMMIT publishes these events."""
        arguments: list[bytes] = []
        for item in news:
            name = "@".join([_name(type(item)), *getattr(item, "readers", ())])
            arguments += self.channel, name.encode() + b" " + encode(item, type(item))
        return arguments

    async def delivered(self, number: int) -> None:
        """Wait until the message with this number has been delivered in this process.

        Returns immediately if a listener calls this, or if the connection is down.
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
            self._resume(lately)

    async def _lately(self, connection: int) -> Lately | None:
        """Return the engine's messages since the last delivered one, or None after errors."""
        for _ in range(TRIES):
            try:
                for most in PAGES:
                    news = await self.engine.send_command(
                        "LRANGE", self.channel + b":lately", -most, -1
                    )
                    life = await self.engine.send_command("GET", self.channel + b":life")
                    lately = Lately(life or b"", news)
                    if len(news) < most or connection == 1 or self._since(lately) is not None:
                        break
            except BoardAway:
                await self.engine.pause(AGAIN_S)
                if connection != self._connections:
                    break
            else:
                return lately if all(map(FORM.match, lately.news)) else None
        return None

    def _resume(self, lately: Lately | None) -> None:
        """Deliver the messages read from the engine, then those received during the reading."""
        since = self._since(lately)
        held, self._held = self._held or [], None
        missed = since is None and self._connections > 1
        if since is None:
            since = self._anew(lately)
            self._last = None
            self._known = lately.news[-1] if lately is not None and lately.news else None
        self._life = None if lately is None else lately.life
        self._arrived.add([*((item, True) for item in since), *((item, False) for item in held)])
        if missed:  # after delivering what did arrive
            self._report_missed()
        self._release()

    def _since(self, lately: Lately | None) -> list[bytes] | None:
        """Return the messages after the last known message, or None if that message is missing."""
        last = self._last or self._known
        if last is None or lately is None or not lately.news or self._is_another(lately.life):
            return None
        after = _number(last) - _number(lately.news[0]) + 1
        if after < 1 or lately.news[after - 1 : after] != [last]:
            return None
        return lately.news[after:]

    def _anew(self, lately: Lately | None) -> list[bytes]:
        """Return all messages if the engine's id has changed and no message is missing, else []."""
        if lately is None or not lately.news or not self._is_another(lately.life):
            return []
        return lately.news if lately.news[0] == lately.life else []

    def _is_another(self, life: bytes) -> bool:
        return self._life is not None and life != self._life

    def _leaves(self) -> None:
        self._joined, self._held = False, None
        waiting, self._waiting = self._waiting, []
        for _, _, done in waiting:
            if not done.called:
                done.callback(None)

    def _arrives(self, channel: bytes, message: bytes) -> None:
        if channel != self.channel or not self._joined:
            return  # ``_catch_up`` reads what arrives before all channels are subscribed
        if FORM.match(message) is None:
            self._warn("")
            return
        if self._held is not None:
            self._held.append(message)
            if len(self._held) >= MOST_LATELY:
                self._resume(None)  # reading takes too long
            return
        self._arrived.add(((message, False),))
        if not self._arrived.busy:
            self._release()

    def _reached(self) -> int:
        """Return the number of the last delivered message."""
        return max(_number(message) for message in (self._known, self._last, b"0") if message)

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
            return  # already delivered
        else:
            self._read.clear()
        last, self._last = self._last, message
        if message.startswith(BIRTH):
            self._life, self._known = message, None
        if message.endswith(b" "):  # the list has only the number of a long message
            self._report_missed()
            return
        if last is not None and _number(message) != _number(last) + 1:
            self._report_missed()  # also if the engine restarted
        self._deliver(message)

    def _deliver(self, message: bytes) -> None:
        _, _, rest = message.partition(b" ")
        head, _, text = rest.partition(b" ")
        name, *readers = head.decode(errors="replace").split("@")
        known = self._listeners.get(name)
        if known is None or (readers and self._named not in readers):
            return
        kind, listeners = known
        try:
            news: Any = decode(text, kind)
        except Exception:  # of any kind: later messages must be delivered
            self._warn(name)
            self._report_missed()
            return
        for listener in listeners:
            deliver(listener, news)

    def _warn(self, name: str) -> None:
        if self._warned.due(name, self.engine.seconds()):
            log.warn("an event cannot be decoded and is ignored: {name}", name=name or "not ours")

    def _report_missed(self) -> None:
        log.info("this process may have missed events of other processes")
        for callback in self._missed:
            deliver(_call, callback)


def _call(callback: Callable[[], None]) -> None:
    callback()


def _name(news: type) -> str:
    return f"{news.__module__}.{news.__qualname__}"


def _number(message: bytes) -> int:
    return int(message.partition(b" ")[0])
