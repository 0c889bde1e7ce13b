"""The interface to live state: ``transact`` runs synchronous work in a transaction.

    await board.transact(lambda transaction: leave(BoardParties(transaction), me), near=keys)

``work(transaction)`` reads and writes entries. If ``work`` raises, nothing is written. ``work`` may
run more than once, so it must have no effect outside its transaction. The transaction also provides
the time, new ids and a method to publish events.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.board.kinds import Kind
from svcserver.kernel.ids import new_id

T = TypeVar("T")
N = TypeVar("N")
Key = tuple[Kind[Any], str]


class BoardTransaction(ABC):
    """The board's unit of work, which collects writes, ids and events until the commit.

    ``now`` is the time in epoch seconds by the engine's clock; it is the same in every run of the
    work. ``ids`` has the ids that earlier runs of the work created; a repeated run gets the same
    ids.
    """

    __slots__ = ("_drawn", "_ids", "news", "now", "written")

    def __init__(self, now: float, ids: list[str]) -> None:
        self.now = now
        self.written: dict[Key, Any] = {}  # None: the entry is deleted
        self.news: list[object] = []
        self._ids, self._drawn = ids, 0

    def new_id(self) -> str:
        """Return a new UUID; a second run of ``work`` gets the UUIDs of the first run."""
        if self._drawn == len(self._ids):
            self._ids.append(new_id())
        self._drawn += 1
        return self._ids[self._drawn - 1]

    @abstractmethod
    def get(self, kind: Kind[T], key: str) -> T | None:
        """Return the entry, or None if it does not exist or has expired."""

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        """Write an entry and restart its time to live.

        If this transaction has not read the entry, no conflict is detected: the last write wins.
        """
        self.written[kind, key] = value

    def drop(self, kind: Kind[Any], key: str) -> None:
        """Delete an entry; does nothing if it does not exist."""
        self.written[kind, key] = None

    @abstractmethod
    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        """Return every entry of a kind, least recently written first.

        Raises TypeError unless the kind has ``listed=True``.
        Another process may change the list before this transaction is committed.
        """

    @abstractmethod
    def count(self, kind: Kind[Any]) -> int:
        """Return the number of entries that ``each`` would return."""

    def publish(self, news: object) -> None:
        """Publish an event to the listeners of its type when the transaction is committed."""
        self.news.append(news)

    def _own_writes(self, kind: Kind[Any]) -> dict[str, Any]:
        return {key: value for (of, key), value in self.written.items() if of is kind}


Work = Callable[[BoardTransaction], T]


@frozen
class EngineInfo:
    """The engine that holds live state: its uptime, and its version ("" if unknown)."""

    version: str = ""
    uptime_s: int | None = None


class Board(Protocol):
    """The interface through which features use live state."""

    @property
    def shared(self) -> bool:
        """True if other processes use the same live state."""

    def transact(self, work: Work[T], near: Iterable[Key] = ()) -> Deferred[T]:
        """Run ``work`` and commit; the Deferred fires with the result of ``work``.

        The Deferred fires only when this process has delivered the events that ``work`` published.

        ``near`` has the keys that ``work`` always reads, so that an external engine loads their
        entries together. ``near`` must not affect the result.
        """

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        """Call ``listener`` with every event of this type; all processes see the same order."""

    def reads_as(self, name: str) -> None:
        """Receive only events without ``readers`` and events whose ``readers`` include ``name``.

        A ``MemoryBoard`` ignores this and delivers all events to every listener.
        """

    def forget_at_start(self, *keys: Key) -> None:
        """Delete these entries, unless another running process has already made this call.

        Call this before the service starts.
        """

    def when_missed(self, look: Callable[[], None]) -> None:
        """Call ``look`` whenever events of other processes may have been missed."""

    def engine_info(self) -> Deferred[EngineInfo | None]:
        """Return data about the live-state server, or None if the board has no server.

        The Deferred fails if the server does not answer.
        """
