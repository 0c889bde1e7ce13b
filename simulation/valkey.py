"""A model of Valkey: it speaks RESP and loses the newest writes in a failover.

The scripts of ``board/scripts.py`` are reimplemented here. Commands that the board never sends
are unknown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hiredis
from attrs import define, field
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from simulation.clock import World
from simulation.network import Network, Route
from simulation.process import Process
from svcserver.board.scripts import COMMIT, LISTED, LOAD, LONGEST_LATELY, MOST_LATELY

PORT = 6379
MACHINE, ADDRESS = "engine", "203.0.113.2"
AWAY_S = (0.0002, 0.0002, 0.002, 0.02, 0.1)  # latency to the engine: on the host, or elsewhere
BEHIND_S = 60.0  # the longest lag of a replica
_NOTHING: Any = object()

Reply = int | bytes | None | Sequence[Any]


def reply(value: Reply) -> bytes:
    """Encode a reply in RESP2."""
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"*%d\r\n%b" % (len(value), b"".join(map(reply, value)))


class _Wire(Protocol):
    """A client's connection to the engine."""

    def __init__(self, engine: SimValkey) -> None:
        self.engine = engine
        self._reader = hiredis.Reader()

    def connectionMade(self) -> None:
        self.engine.wires[self] = None

    def dataReceived(self, data: bytes) -> None:
        self._reader.feed(data)
        while (command := self._reader.gets()) is not False:
            self.send(self.engine.answer(self, command))

    def send(self, data: bytes) -> None:
        """Send a reply, or a message of a pub/sub channel."""
        transport: Any = self.transport
        transport.write(data)

    def connectionLost(self, reason: Failure = Failure(ConnectionError())) -> None:  # noqa: B008
        self.engine.wires.pop(self, None)


@define(eq=False)
class SimValkey:
    """The live-state engine, or the replica that has replaced it."""

    world: World
    network: Network
    process: Process = field(init=False)
    route: Route = field(init=False)
    wires: dict[_Wire, None] = field(factory=dict)
    outages: int = field(default=0, init=False)  # of its machine's power
    _entries: dict[bytes, tuple[bytes, float]] = field(factory=dict, init=False)
    _lists: dict[bytes, dict[bytes, float]] = field(factory=dict, init=False)
    _counts: dict[bytes, int] = field(factory=dict, init=False)
    _lately: dict[tuple[bytes, int], bytes] = field(factory=dict, init=False)  # messages by number
    _lives: dict[bytes, bytes] = field(factory=dict, init=False)  # names of its life, by key
    _subscribers: dict[bytes, dict[_Wire, None]] = field(factory=dict, init=False)
    _scripts: dict[bytes, Callable[[list[bytes], list[bytes]], Reply]] = field(
        factory=dict, init=False
    )
    _journal: deque[tuple[float, dict[Any, Any], Any, Any]] = field(factory=deque, init=False)

    def __attrs_post_init__(self) -> None:
        away = self.world.weather.choice(AWAY_S)
        self.route = Route(away, away * self.world.weather.random())
        self.network.name(ADDRESS, MACHINE)
        self.slow(0.0)

    def slow(self, more_s: float) -> None:
        """Add ``more_s`` to the latency of the engine's replies."""
        route = Route(self.route.least_s + more_s, self.route.varies_s + more_s)
        self.network.routes["host", MACHINE] = route

    def start(self) -> None:
        """Start to listen; the stored data remains, but scripts and subscriptions are lost."""
        self.network.off.discard(MACHINE)
        self.process = Process(self.world, self.network, "valkey", MACHINE, ADDRESS)
        self.wires.clear()
        self._subscribers.clear()
        self._scripts.clear()
        self.process.listenTCP(PORT, _Wires(self))

    def fail_over(self, lost_s: float, back_in_s: float) -> None:
        """Kill the engine; a replica that lags by ``lost_s`` takes over."""
        if not self.process.dead:
            self.process.die()
            self._forget(lost_s)
            self.world.later(back_in_s, self.start)

    def lose_power(self, lost_s: float, back_in_s: float) -> None:
        """Switch off the engine's machine: clients are not notified and get no replies."""
        if not self.process.dead:
            self.outages += 1
            self.process.vanish()
            self._forget(lost_s)
            self.world.later(back_in_s, self.start)

    def _forget(self, lost_s: float) -> None:
        """Undo the writes of the last ``lost_s`` seconds."""
        since = self.world.now - lost_s
        while self._journal and self._journal[-1][0] >= since:
            _, table, key, before = self._journal.pop()
            if before is _NOTHING:
                table.pop(key, None)
            else:
                table[key] = before

    def empty(self, back_in_s: float) -> None:
        """Kill the engine and restart it without its data."""
        if not self.process.dead:
            self.process.die()
            for table in (self._entries, self._lists, self._counts, self._lately, self._lives):
                table.clear()
            self._journal.clear()
            self.world.later(back_in_s, self.start)

    def live(self) -> Iterator[tuple[str, bytes]]:
        """Yield the key and value of each live entry."""
        for key, (value, until) in self._entries.items():
            if until > self.world.now:
                yield key.decode(), value

    # -- commands -----------------------------------------------------------------

    def answer(self, wire: _Wire, command: list[bytes]) -> bytes:
        """Return the reply to a command, or an error if the command is unknown."""
        name, *words = command
        match name.upper(), words:
            case b"PING", []:
                return b"+PONG\r\n"
            case b"SCRIPT", [b"LOAD", text]:
                return reply(self._load_script(text))
            case b"EVALSHA", [sha, count, *rest]:
                run = self._scripts.get(sha)
                if run is None:
                    return b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
                keys = int(count)
                return reply(run(rest[:keys], rest[keys:]))
            case b"SUBSCRIBE", [channel]:
                self._subscribers.setdefault(channel, {})[wire] = None
                return reply((b"subscribe", channel, 1))
            case b"INFO", [b"server"]:
                return reply(b"# Server\r\nvalkey_version:8.1.0\r\nuptime_in_seconds:60\r\n")
            case b"PUBSUB", [b"NUMSUB", channel]:
                return reply((channel, len(self._subscribers.get(channel, {}).keys() & self.wires)))
            case b"DEL", keys_to_delete:
                there = [key for key in keys_to_delete if self._get(key) is not None]
                for key in there:
                    self._put(self._entries, key, _NOTHING)
                return reply(len(there))
        return self._reply_to_read(name, words)

    def _reply_to_read(self, name: bytes, words: list[bytes]) -> bytes:
        match name.upper(), words:
            case b"GET", [key]:
                number = self._counts.get(key)
                named = self._lives.get(key, self._get(key))
                return reply(named if number is None else b"%d" % number)
            case b"LRANGE", [key, first, b"-1"]:
                return reply(self._latest(key.removesuffix(b":lately"), -int(first)))
        return b"-ERR unknown command '%b'\r\n" % name

    def _load_script(self, text: bytes) -> bytes:
        for script, run in ((LOAD, self._load), (LISTED, self._listed), (COMMIT, self._commit)):
            if text == script.text.encode():
                self._scripts[script.sha.encode()] = run
                return script.sha.encode()
        raise ValueError("a script that this model does not know")

    def _get(self, key: bytes) -> bytes | None:
        entry = self._entries.get(key)
        return None if entry is None or entry[1] <= self.world.now else entry[0]

    def _after(self, name: bytes, since: bytes) -> list[bytes]:
        least = float(since.removeprefix(b"("))
        scores = self._lists.get(name, {}).items()
        return [member for score, member in sorted((s, m) for m, s in scores) if score > least]

    def _latest(self, channel: bytes, most: int) -> list[bytes]:
        last = self._counts.get(channel + b":told", -1)
        return [
            self._lately[channel, number] for number in range(max(0, last + 1 - most), last + 1)
        ]

    # -- the scripts ----------------------------------------------------------------

    def _load(self, keys: list[bytes], lives: list[bytes]) -> Reply:
        now = self.world.now
        values: list[Reply] = [b"%d" % int(now), b"%d" % int(now % 1 * 1e6)]
        for key, life in zip(keys, lives, strict=True):
            value = self._get(key)
            if value is not None and life:
                self._put(self._entries, key, (value, now + int(life) / 1000))
            values.append(value or b"")
        return values

    def _listed(self, keys: list[bytes], words: list[bytes]) -> Reply:
        members = self._after(keys[0], words[1])
        return len(members) if words[0] == b"ZCOUNT" else members

    def _commit(self, keys: list[bytes], words: list[bytes]) -> Reply:
        for number, key in enumerate(keys):
            expected = words[4 * number]
            if expected != b"*" and (self._get(key) or b"")[:12] != expected:
                return [number + 1]
        for number, key in enumerate(keys):
            value, life, listed = words[4 * number + 1 : 4 * number + 4]
            if value != b"-":
                self._write(key, value, int(life) / 1000 if life else float("inf"), listed)
        numbers = [0]
        news = words[4 * len(keys) :]
        for channel, text in zip(news[::2], news[1::2], strict=True):
            count_key = channel + b":told"
            number = self._counts.get(count_key, 0) + 1
            if number == 1:
                now = self.world.now
                life = b"0 life %d.%d" % (int(now), int(now % 1 * 1e6))
                self._put(self._lives, channel + b":life", life)
                self._publish(channel, 0, life)
            self._put(self._counts, count_key, number)
            self._publish(channel, number, b"%d %b" % (number, text))
            numbers.append(number)
        return numbers

    def _publish(self, channel: bytes, number: int, text: bytes) -> None:
        """Publish a message and store it."""
        stored = text if len(text) <= LONGEST_LATELY else b"%d " % number
        self._put(self._lately, (channel, number), stored)
        self._lately.pop((channel, number - 2 * MOST_LATELY), None)
        for wire in list(self._subscribers.get(channel, ())):
            if wire in self.wires:
                wire.send(reply((b"message", channel, text)))

    def _write(self, key: bytes, value: bytes, life_s: float, listed: bytes) -> None:
        now = self.world.now
        self._put(self._entries, key, (value, now + life_s) if value else _NOTHING)
        if listed:
            members, member = self._lists.setdefault(listed, {}), key[len(listed) + 1 :]
            for expired in [member for member, score in members.items() if score <= now * 1000]:
                self._put(members, expired, _NOTHING)
            score = int(now * 1000) + life_s * 1000
            self._put(members, member, score if value else _NOTHING)

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Write a value, but keep the previous value for ``BEHIND_S`` seconds.

        Until then ``_forget`` can restore it, as when a replica that lacks the write takes over.
        """
        now = self.world.now
        self._journal.append((now, table, key, table.get(key, _NOTHING)))
        while self._journal[0][0] < now - BEHIND_S:
            self._journal.popleft()
        if value is _NOTHING:
            table.pop(key, None)
        else:
            table[key] = value


class _Wires(Factory):
    """The factory of connections."""

    noisy = False

    def __init__(self, engine: SimValkey) -> None:
        self.engine = engine

    def buildProtocol(self, addr: Any) -> _Wire:
        return _Wire(self.engine)
