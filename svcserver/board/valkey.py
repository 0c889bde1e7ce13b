"""The board on an engine that several processes share: Valkey, or Redis.

The rules stay Python. An act loads what it reads, runs, and writes if what it has read is still so;
else it runs again. Several loads are no snapshot: then what was read is compared before a result,
a refusal or an exception is believed. Time is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen
from cachetools import LRUCache
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.board import Key, Work
from svcserver.board.engine import Ask, Engine
from svcserver.board.engine_transaction import (
    PREFIX,
    EngineTransaction,
    Loaded,
    NotLoaded,
    Values,
    name_of,
)
from svcserver.board.kinds import FOR_EVER, Kind
from svcserver.board.news import NewsFeed
from svcserver.board.scripts import ABSENT, ANY, COMMIT, DROP, KEEP, LISTED, LOAD, STAMP, UNLISTED
from svcserver.board.seal import Seal
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.system import generator, token_hex

T = TypeVar("T")
N = TypeVar("N")
log = Logger()

MOST_TRIES = 60  # of an act that others overtake
MOST_LOADS = 64  # of one try
HABITS = 65_536  # acts of which is remembered what they read
HABIT_KEYS = 48  # of one act
VALUES = 16_384  # decoded values that are kept
PAGE = 256  # entries of a list in one reading


class Overtaken(Unavailable):
    """Others wrote what this act has read, again and again."""

    def __init__(self) -> None:
        super().__init__("too many change the same at once", retry_after_s=1)


@frozen
class Outcome(Generic[T]):
    """What a run of the work gave or raised."""

    result: T | None
    raised: Exception | None


@define(eq=False, slots=False)
class ValkeyBoard:
    """See ``Board``.

    ``time_of``: the board's time at the engine's, for tests that let time pass. ``seal``: by the
    secret of the host, under which its entries are kept.
    """

    shared = True
    engine: Engine
    time_of: Callable[[float], float] = float
    seal: Seal = field(factory=lambda: Seal(b""))

    def __attrs_post_init__(self) -> None:
        self.conflicts = 0  # acts that ran again
        self._kinds: dict[str, Kind[Any]] = {}
        self._values = Values(VALUES, self.seal, self.engine.seconds)
        self._habits: LRUCache[Key, tuple[Key, ...]] = LRUCache(HABITS)
        self._drift: float | None = None  # the engine's clock minus ours
        self._writer, self._writes = bytes.fromhex(token_hex(6)), 0
        self._dice = generator()
        self._news = NewsFeed(self.engine)

    def transact(self, work: Work[T], near: Iterable[Key] = ()) -> Deferred[T]:
        return Deferred.fromCoroutine(self._act(work, tuple(near)))

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        self._news.listen(news, listener)

    def reads_as(self, name: str) -> None:
        self._news.reads_as(name)

    def forget_at_start(self, *keys: Key) -> None:
        names = [self._name(*one) for one in keys]
        self.engine.before_all(partial(self._forget_alone, names))

    async def _forget_alone(self, names: list[bytes], ask: Ask) -> None:
        """Delete the entries where no process shows, by listening, that it runs."""
        running = f"svc:{self.engine.space}:running".encode()
        _, listeners = await ask("PUBSUB", "NUMSUB", running)
        if not listeners:
            await ask("DEL", *names)
        self.engine.subscribe(running)

    def when_missed(self, look: Callable[[], None]) -> None:
        self._news.when_missed(look)

    async def _act(self, work: Work[T], near: tuple[Key, ...]) -> T:
        ids: list[str] = []
        wanted = dict.fromkeys(near)
        if near:
            wanted.update(dict.fromkeys(self._habits.get(near[0], ())))
        for tries in range(MOST_TRIES):
            loaded, transaction, outcome = await self._try(work, wanted, ids)
            if near:
                self._learn(near, transaction)
            if await self._counts(loaded, transaction, outcome):
                if outcome.raised is not None:
                    raise outcome.raised
                return outcome.result  # type: ignore[return-value]  # it raised nothing
            self.conflicts += 1
            wanted = dict.fromkeys(transaction.read)
            if tries > 1:  # let others pass, each another while
                await self.engine.pause(min(tries, 10) * 0.002 * self._dice.random())
        raise Overtaken

    async def _try(
        self, work: Work[T], wanted: dict[Key, None], ids: list[str]
    ) -> tuple[Loaded, EngineTransaction, Outcome[T]]:
        """Run the work on all that it asks for."""
        loaded = Loaded(self.time_of(self._engine_s()))
        if wanted or self._drift is None:
            await self._load(loaded, wanted)
        for _ in range(MOST_LOADS):
            transaction = EngineTransaction(loaded, self._values, ids)
            outcome = _run(work, transaction)
            missing = transaction.missing
            if not missing:
                return loaded, transaction, outcome
            if missing.entries or not loaded.loads:
                await self._load(loaded, missing.entries)
            for kind in missing.lists:
                loaded.lists[kind] = await self._list(kind)
            for kind in missing.counts:
                loaded.counts[kind] = await self._count(kind)
        raise RuntimeError(f"{work!r} never has all that it asks for")

    async def _load(self, loaded: Loaded, keys: Iterable[Key]) -> None:
        # a sign of life is not compared: one that is older than what is read beside it would count
        signs = [one for one in loaded.entries if not one[0].compared]
        asked = list(dict.fromkeys([*keys, *signs]))
        names = [self._name(*one) for one in asked]
        lives = [_life(kind) if kind.kept_by_reading else b"" for kind, _ in asked]
        found = await self.engine.run(LOAD, names, lives)
        seconds = int(found[0]) + int(found[1]) / 1e6
        self._drift = seconds - self.engine.seconds()
        if not loaded.loads:
            loaded.now = self.time_of(seconds)
        loaded.loads += 1
        loaded.entries.update(zip(asked, (one or None for one in found[2:]), strict=True))

    async def _counts(
        self, loaded: Loaded, transaction: EngineTransaction, outcome: Outcome[T]
    ) -> bool:
        """Write what the work wrote; False when what it has read is out of date."""
        written = transaction.written if outcome.raised is None else {}
        news = transaction.news if outcome.raised is None else []
        if not written and not news and loaded.loads <= 1:
            return True  # one load is a snapshot
        keys: list[bytes] = []
        arguments: list[bytes] = []
        # signs of life, from somebody whom the engine has just answered: nobody waits for them
        signs = loaded.loads == 1 and not news and not any(one[0].compared for one in written)
        for at in written if signs else dict.fromkeys([*transaction.read, *written]):
            kind = at[0]
            seen = at in transaction.read and kind.compared
            if not seen and at not in written:
                continue
            keys.append(self._name(*at))
            arguments.append(_stamp(loaded.entries[at]) if seen else ANY)
            arguments += self._change(at, written[at]) if at in written else UNCHANGED
        arguments += self._news.told(news)
        done = self.engine.run(COMMIT, keys, arguments)
        if signs:
            done.addErrback(_unacknowledged)
            return True
        reply = await done
        if reply[0]:
            return False
        if news:
            await self._news.heard(reply[-1])
        return True

    def _change(self, at: Key, value: Any) -> tuple[bytes, bytes, bytes]:
        kind = at[0]
        listed = _list_of(kind) if kind.listed else UNLISTED
        if value is None:
            return DROP, b"", listed
        self._writes += 1
        stamp = self._writer + self._writes.to_bytes(STAMP - len(self._writer), "big")
        data = kind.encode(value)
        if kind.sealed:
            data = self.seal.close(name_of(*at), stamp, data)
        return stamp + data, _life(kind), listed

    async def _list(self, kind: Kind[Any]) -> list[tuple[str, bytes]]:
        """All entries of a listed kind, in pages: those who ask need no snapshot."""
        since = b"(%d" % (self._engine_s() * 1000)
        members = await self.engine.run(LISTED, [_list_of(kind)], [b"ZRANGEBYSCORE", since])
        keys = [key for one in members if (key := _text(one)) is not None]
        found: list[tuple[str, bytes]] = []
        for start in range(0, len(keys), PAGE):
            page = keys[start : start + PAGE]
            names = [self._name(kind, key) for key in page]
            _, _, *there = await self.engine.run(LOAD, names, [b""] * len(page))
            found += [(key, data) for key, data in zip(page, there, strict=True) if data]
        return found

    async def _count(self, kind: Kind[Any]) -> int:
        since = b"(%d" % (self._engine_s() * 1000)
        return int(await self.engine.run(LISTED, [_list_of(kind)], [b"ZCOUNT", since]))

    def _engine_s(self) -> float:
        """The engine's time, as far as it is known without asking."""
        return self.engine.seconds() + (self._drift or 0.0)

    def _name(self, kind: Kind[Any], key: str) -> bytes:
        if self._kinds.setdefault(kind.name, kind) is not kind:
            raise kind.clash()
        return name_of(kind, key)

    def _learn(self, near: tuple[Key, ...], transaction: EngineTransaction) -> None:
        """Remember what was read beside ``near``, to bring it in one go the next time."""
        beside = tuple(one for one in transaction.read if one not in near)
        known = self._habits.get(near[0])
        if len(beside) <= HABIT_KEYS and (beside or known) and known != beside:
            self._habits[near[0]] = beside


UNCHANGED = KEEP, b"", UNLISTED


def _run(work: Work[T], transaction: EngineTransaction) -> Outcome[T]:
    try:
        return Outcome(work(transaction), None)
    except NotLoaded:
        return Outcome(None, None)
    except Exception as why:
        return Outcome(None, why)


def _list_of(kind: Kind[Any]) -> bytes:
    return f"{PREFIX}{kind.name}".encode()


def _stamp(entry: bytes | None) -> bytes:
    return ABSENT if entry is None else entry[:STAMP]


def _life(kind: Kind[Any]) -> bytes:
    return b"" if kind.lives_s == FOR_EVER else b"%d" % (kind.lives_s * 1000)


def _text(member: bytes) -> str | None:
    """The key that stands in a list; None for what no board has put there."""
    try:
        return member.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _unacknowledged(why: Any) -> None:
    """A sign of life that was lost is followed by another."""
    why.trap(Unavailable)
