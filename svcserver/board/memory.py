"""A board for a single process; it needs no engine, and its data are lost when the process ends."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import orjson
from attrs import define
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger

from svcserver.board.board import BoardTransaction, EngineInfo, Key, Work
from svcserver.board.delivery import InOrder, deliver
from svcserver.board.kinds import FOR_EVER, Kind
from svcserver.kernel.throttle import Throttle

T = TypeVar("T")
N = TypeVar("N")
log = Logger()

RECLAIMED = 2  # expired entries removed, at most, for each entry added
SWEEP_EVERY = 16  # transactions that wrote something
SWEPT = 64  # expired entries removed, at most, in a sweep


@define(eq=False)
class StoredValue:
    """A value and the time when it expires (epoch seconds)."""

    value: Any
    until: float


Table = OrderedDict[str, StoredValue]  # in order of expiry


class Tables(dict[Kind[Any], Table]):
    """The board's entries: a table for each kind of entry."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[str, list[Any]] = {}  # of kinds not used since the restart

    def __missing__(self, kind: Kind[Any]) -> Table:
        if any(known.name == kind.name for known in self):
            raise kind.clash()
        table = self[kind] = OrderedDict()
        for key, value, until in self.saved.pop(kind.name, ())[: kind.most]:
            try:
                entry = StoredValue(
                    kind.decode(orjson.dumps(value)), FOR_EVER if until is None else until
                )
            except Exception as error:  # another version may have written it
                text = "ignoring the saved {kind} entries: {why}"
                log.warn(text, kind=kind.name, why=type(error).__name__)
                break
            table[str(key)] = entry
        return table


class MemoryTransaction(BoardTransaction):
    """A ``BoardTransaction`` on a ``MemoryBoard``'s tables."""

    __slots__ = ("_tables",)

    def __init__(self, now: float, tables: Tables, ids: list[str]) -> None:
        super().__init__(now, ids)
        self._tables = tables

    def get(self, kind: Kind[T], key: str) -> T | None:
        if self.written and (kind, key) in self.written:
            written: T | None = self.written[kind, key]
            return written
        table = self._tables[kind]
        entry = table.get(key)
        if entry is None or entry.until <= self.now:
            return None
        if kind.kept_by_reading:
            entry.until = self.now + kind.lives_s
            table.move_to_end(key)
        value: T = entry.value
        return value

    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        table = self._live(kind)
        ours = self._own_writes(kind)
        stored = [(key, entry.value) for key, entry in table.items() if key not in ours]
        return stored + [(key, value) for key, value in ours.items() if value is not None]

    def count(self, kind: Kind[Any]) -> int:
        return len(self.each(kind)) if self.written else len(self._live(kind))

    def _live(self, kind: Kind[Any]) -> Table:
        """Return the table of a kind after removing its expired entries."""
        kind.check_listed()
        table = self._tables[kind]
        while table and next(iter(table.values())).until <= self.now:
            table.popitem(last=False)
        return table


class MemoryBoard:
    """A ``Board`` that commits before ``transact`` returns.

    ``wall_clock`` returns epoch seconds and never runs backwards.
    """

    shared = False

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._now = wall_clock
        self._tables = Tables()
        self._listeners: dict[type, list[Callable[[Any], None]]] = {}
        self._news = InOrder(self._deliver)  # a listener's own events are delivered later
        self._commits = 0
        self._full = Throttle()

    def transact(self, work: Work[T], near: Iterable[Key] = ()) -> Deferred[T]:
        try:
            result, transaction = self._run(work, self._now())
        except Exception:
            return fail()
        if transaction.written:
            self._commit(transaction)
        if transaction.news:
            self._news.add(transaction.news)
        return succeed(result)

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        self._listeners.setdefault(news, []).append(listener)

    def reads_as(self, name: str) -> None:
        """Do nothing, because this board delivers all events to every listener."""

    def forget_at_start(self, *keys: Key) -> None:
        for kind, key in keys:
            self._tables[kind].pop(key, None)

    def when_missed(self, look: Callable[[], None]) -> None:
        """Do nothing, because this board never misses events."""

    def engine_info(self) -> Deferred[EngineInfo | None]:
        return succeed(None)

    def saved(self) -> dict[str, list[Any]]:
        """Map the name of each kind to its entries, each as (key, value, expiry)."""
        now = self._now()
        saved = dict(self._tables.saved)
        for kind, table in self._tables.items():
            saved[kind.name] = [
                (key, orjson.Fragment(kind.encode(entry.value)), _finite(entry.until))
                for key, entry in table.items()
                if entry.until > now
            ]
        return saved

    def restore(self, saved: dict[str, list[Any]]) -> None:
        """Load a snapshot made by ``saved``; the board must not be in use yet."""
        self._tables.saved = saved

    def held(self, kind: Kind[Any]) -> int:
        """Return how many entries of a kind are in memory, including expired entries."""
        return len(self._tables[kind])

    def _run(self, work: Work[T], now: float) -> tuple[T, MemoryTransaction]:
        transaction = MemoryTransaction(now, self._tables, [])
        return work(transaction), transaction

    def _commit(self, transaction: MemoryTransaction) -> None:
        now = transaction.now
        for (kind, key), value in transaction.written.items():
            table = self._tables[kind]
            if value is None:
                table.pop(key, None)
                continue
            entry = table.get(key)
            if entry is not None:
                entry.value, entry.until = value, now + kind.lives_s
                table.move_to_end(key)
                continue
            table[key] = StoredValue(value, now + kind.lives_s)
            _reclaim(table, now, RECLAIMED)
            if len(table) > kind.most:
                self._drop_oldest(kind, table, now)
        self._commits += 1
        if self._commits % SWEEP_EVERY == 0:
            self._sweep(now)

    def _drop_oldest(self, kind: Kind[Any], table: Table, now: float) -> None:
        table.popitem(last=False)
        if self._full.due(kind.name, now):
            text = "live state has too many {kind} entries (limit {most}): dropping the oldest"
            log.warn(text, most=kind.most, kind=kind.name)

    def _sweep(self, now: float) -> None:
        """Remove some expired entries of one kind; each call takes the next kind."""
        tables = list(self._tables.values())
        _reclaim(tables[self._commits // SWEEP_EVERY % len(tables)], now, SWEPT)

    def _deliver(self, news: object) -> None:
        for listener in self._listeners.get(type(news), ()):
            deliver(listener, news)


def _finite(until: float) -> float | None:
    return None if until == FOR_EVER else until


def _reclaim(table: Table, now: float, most: int) -> None:
    for _ in range(most):
        if not table or next(iter(table.values())).until > now:
            return
        table.popitem(last=False)
