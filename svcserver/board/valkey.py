"""The board that stores live state on an engine that several processes share: Valkey or Redis.

``transact`` loads entries and runs the caller's function. If an entry that was read has changed
meanwhile, ``transact`` starts again. Otherwise it writes the changes. Entries can change between
two loads. So a transaction that has loaded more than once checks for changes even if it writes
nothing. The engine's clock gives the time.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen
from cachetools import LRUCache
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.board import EngineInfo, Key, Work
from svcserver.board.engine import Ask, BoardEngine
from svcserver.board.engine_transaction import (
    PREFIX,
    EngineTransaction,
    Loaded,
    NotLoaded,
    Seal,
    Values,
    name_of,
)
from svcserver.board.kinds import FOR_EVER, Kind
from svcserver.board.news import NewsFeed
from svcserver.board.scripts import ABSENT, ANY, COMMIT, DROP, KEEP, LISTED, LOAD, STAMP, UNLISTED
from svcserver.kernel.digits import MAX_DIGITS, whole_in
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.system import generator, token_hex

T = TypeVar("T")
N = TypeVar("N")
log = Logger()

MOST_TRIES = 60  # of a transaction that conflicts with others
MOST_LOADS = 64  # of one attempt
HABITS = 65_536  # maximum number of transactions whose key set is cached
HABIT_KEYS = 48  # of one transaction
VALUES = 16_384  # cached decoded values
PAGE = 256  # entries of a list in one load
UNCHANGED = KEEP, b"", UNLISTED


class Overtaken(Unavailable):
    """The error if other transactions changed the same entries during every attempt."""

    def __init__(self) -> None:
        super().__init__("too many requests change the same data at once", retry_after_s=1)


@frozen
class Outcome(Generic[T]):
    """The result of ``work``, or the exception that ``work`` raised."""

    result: T | None
    raised: Exception | None


@define(eq=False, slots=False)
class ValkeyBoard:
    """A ``Board`` that is stored in a Valkey or Redis server.

    With ``time_of``, tests change the time that the server reports. ``seal`` signs entries with a
    key derived from this host's secret.
    """

    shared = True
    engine: BoardEngine
    time_of: Callable[[float], float] = float
    seal: Seal = field(factory=lambda: Seal(b""))

    def __attrs_post_init__(self) -> None:
        self.conflicts = 0  # transactions that ran again
        self._kinds: dict[str, Kind[Any]] = {}
        self._values = Values(VALUES, self.seal, self.engine.seconds)
        self._habits: LRUCache[Key, tuple[Key, ...]] = LRUCache(HABITS)
        self._drift: float | None = None  # the engine's clock minus ours
        self._writer, self._writes = bytes.fromhex(token_hex(6)), 0
        self._dice = generator()
        self._news = NewsFeed(self.engine)

    def transact(self, work: Work[T], near: Iterable[Key] = ()) -> Deferred[T]:
        return Deferred.fromCoroutine(self._transact_with_retries(work, tuple(near)))

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        self._news.listen(news, listener)

    def reads_as(self, name: str) -> None:
        self._news.reads_as(name)

    def forget_at_start(self, *keys: Key) -> None:
        names = [self._name(*key) for key in keys]
        self.engine.before_all(partial(self._forget_if_first, names))

    async def _forget_if_first(self, names: list[bytes], ask: Ask) -> None:
        """Delete the entries, unless another process that shares this board is already running.

        All running processes subscribe to one channel, so the channel's number of subscribers shows
        whether another process is running.
        """
        running = f"svc:{self.engine.space}:running".encode()
        _, listeners = await ask("PUBSUB", "NUMSUB", running)
        if not listeners:
            await ask("DEL", *names)
        self.engine.subscribe(running)

    def when_missed(self, look: Callable[[], None]) -> None:
        self._news.when_missed(look)

    def engine_info(self) -> Deferred[EngineInfo | None]:
        return self.engine.send_command("INFO", "server").addCallback(_engine_info)

    async def _transact_with_retries(self, work: Work[T], near: tuple[Key, ...]) -> T:
        ids: list[str] = []
        wanted = dict.fromkeys(near)
        if near:
            wanted.update(dict.fromkeys(self._habits.get(near[0], ())))
        for tries in range(MOST_TRIES):
            loaded, transaction, outcome = await self._try(work, wanted, ids)
            if near:
                self._learn(near, transaction)
            if await self._commit(loaded, transaction, outcome):
                if outcome.raised is not None:
                    raise outcome.raised
                return outcome.result  # type: ignore[return-value]  # the work raised nothing
            self.conflicts += 1
            wanted = dict.fromkeys(transaction.read)
            if tries > 1:  # a random pause, so that other transactions can finish
                await self.engine.pause(min(tries, 10) * 0.002 * self._dice.random())
        raise Overtaken

    async def _try(
        self, work: Work[T], wanted: dict[Key, None], ids: list[str]
    ) -> tuple[Loaded, EngineTransaction, Outcome[T]]:
        """Run the work repeatedly, until all entries that the work needs are loaded."""
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
        raise RuntimeError(
            f"{work!r} was stopped after {MOST_LOADS} runs, because each run needed live state "
            "that no earlier run had needed"
        )

    async def _load(self, loaded: Loaded, keys: Iterable[Key]) -> None:
        # load heartbeats again: no comparison detects that one is outdated
        heartbeats = [key for key in loaded.entries if not key[0].compared]
        wanted = list(dict.fromkeys([*keys, *heartbeats]))
        names = [self._name(*key) for key in wanted]
        lives = [_life(kind) if kind.kept_by_reading else b"" for kind, _ in wanted]
        whole_s, micros, *entries = await self.engine.run(LOAD, names, lives)
        seconds = int(whole_s) + int(micros) / 1e6
        self._drift = seconds - self.engine.seconds()
        if not loaded.loads:
            loaded.now = self.time_of(seconds)
        loaded.loads += 1
        loaded.entries.update(zip(wanted, (entry or None for entry in entries), strict=True))

    async def _commit(
        self, loaded: Loaded, transaction: EngineTransaction, outcome: Outcome[T]
    ) -> bool:
        """Commit the transaction; return False if an entry has changed since it was read."""
        written = transaction.written if outcome.raised is None else {}
        news = transaction.news if outcome.raised is None else []
        if not written and not news and loaded.loads <= 1:
            return True  # one load is a snapshot
        keys: list[bytes] = []
        arguments: list[bytes] = []
        # do not wait for the write of heartbeats if the engine has just answered
        beats = loaded.loads == 1 and not news and not any(kind.compared for kind, _ in written)
        for at in written if beats else dict.fromkeys([*transaction.read, *written]):
            kind = at[0]
            compared = at in transaction.read and kind.compared
            if not compared and at not in written:
                continue
            keys.append(self._name(*at))
            arguments.append(_stamp(loaded.entries[at]) if compared else ANY)
            arguments += self._change(at, written[at]) if at in written else UNCHANGED
        arguments += self._news.commit_arguments(news)
        done = self.engine.run(COMMIT, keys, arguments)
        if beats:
            done.addErrback(lambda failure: None if failure.check(Unavailable) else failure)
            return True
        reply = await done
        if reply[0]:
            return False
        if news:
            await self._news.delivered(reply[-1])
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
        """Return all entries of a kind, which must have ``listed=True``.

        The pages are loaded one after the other, and entries can change between two loads.
        """
        since = b"(%d" % (self._engine_s() * 1000)
        members = await self.engine.run(LISTED, [_list_of(kind)], [b"ZRANGEBYSCORE", since])
        keys = [key for member in members if (key := _text(member)) is not None]
        entries: list[tuple[str, bytes]] = []
        for start in range(0, len(keys), PAGE):
            page = keys[start : start + PAGE]
            names = [self._name(kind, key) for key in page]
            _, _, *values = await self.engine.run(LOAD, names, [b""] * len(page))
            entries += [(key, data) for key, data in zip(page, values, strict=True) if data]
        return entries

    async def _count(self, kind: Kind[Any]) -> int:
        since = b"(%d" % (self._engine_s() * 1000)
        return int(await self.engine.run(LISTED, [_list_of(kind)], [b"ZCOUNT", since]))

    def _engine_s(self) -> float:
        """Return the live-state engine's current time in seconds, estimated from its last reply."""
        return self.engine.seconds() + (self._drift or 0.0)

    def _name(self, kind: Kind[Any], key: str) -> bytes:
        if self._kinds.setdefault(kind.name, kind) is not kind:
            raise kind.clash()
        return name_of(kind, key)

    def _learn(self, near: tuple[Key, ...], transaction: EngineTransaction) -> None:
        """Remember the keys that the work read; the next run loads them together with ``near``."""
        beside = tuple(key for key in transaction.read if key not in near)
        known = self._habits.get(near[0])
        if len(beside) <= HABIT_KEYS and (beside or known) and known != beside:
            self._habits[near[0]] = beside


def _engine_info(reply: bytes) -> EngineInfo:
    lines = reply.decode("utf-8", "replace").splitlines()
    values = {name: value for name, _, value in (line.partition(":") for line in lines)}
    version = values.get("valkey_version") or values.get("redis_version", "")
    return EngineInfo(version[:32], whole_in(values.get("uptime_in_seconds", ""), MAX_DIGITS))


def _run(work: Work[T], transaction: EngineTransaction) -> Outcome[T]:
    try:
        return Outcome(work(transaction), None)
    except NotLoaded:
        return Outcome(None, None)
    except Exception as error:
        return Outcome(None, error)


def _list_of(kind: Kind[Any]) -> bytes:
    return f"{PREFIX}{kind.name}".encode()


def _stamp(entry: bytes | None) -> bytes:
    return ABSENT if entry is None else entry[:STAMP]


def _life(kind: Kind[Any]) -> bytes:
    return b"" if kind.lives_s == FOR_EVER else b"%d" % (kind.lives_s * 1000)


def _text(member: bytes) -> str | None:
    """Decode the key of an entry in an engine's list; return None if it is not UTF-8."""
    try:
        return member.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
