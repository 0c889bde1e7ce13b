"""The interface to live state: ``transact`` runs synchronous work on a transaction.

    await board.transact(lambda transaction: leave(BoardParties(transaction), me), near=keys)

``work(transaction)`` reads and writes entries. If it raises, nothing is written. ``work`` may run
more than once, so it has no effect outside its transaction, which also provides the time and new
ids and takes the news to send.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from svcserver.board.kinds import Kind
from svcserver.kernel.ids import new_id

T = TypeVar("T")
N = TypeVar("N")
Key = tuple[Kind[Any], str]


class BoardTransaction(ABC):
    """The board's unit of work: writes, ids and news wait here until it is committed.

    ``now``: epoch seconds by the engine's clock, the same in every run of the work.
    ``ids``: those drawn by earlier runs, which a repeated run draws again.
    """

    __slots__ = ("_drawn", "_ids", "news", "now", "written")

    def __init__(self, now: float, ids: list[str]) -> None:
        self.now = now
        self.written: dict[Key, Any] = {}  # None where dropped
        self.news: list[object] = []
        self._ids, self._drawn = ids, 0

    def new_id(self) -> str:
        """Return a random UUID, the same one in a repeated run."""
        if self._drawn == len(self._ids):
            self._ids.append(new_id())
        self._drawn += 1
        return self._ids[self._drawn - 1]

    @abstractmethod
    def get(self, kind: Kind[T], key: str) -> T | None:
        """Return the entry, or None if it does not exist or has expired."""

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        """Write an entry and restart its time to live.

        An entry that was not read before is written blind: the last write wins.
        """
        self.written[kind, key] = value

    def drop(self, kind: Kind[Any], key: str) -> None:
        """Delete an entry, if it exists."""
        self.written[kind, key] = None

    @abstractmethod
    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        """Return every entry of a listed kind, least recently written first.

        A concurrent change of the list does not repeat the transaction.
        """

    @abstractmethod
    def count(self, kind: Kind[Any]) -> int:
        """Return the number of entries that ``each`` returns."""

    def publish(self, news: object) -> None:
        """Send news to the listeners of its type, once the transaction is committed."""
        self.news.append(news)

    def _own_writes(self, kind: Kind[Any]) -> dict[str, Any]:
        return {key: value for (of, key), value in self.written.items() if of is kind}


Work = Callable[[BoardTransaction], T]


class Board(Protocol):
    """The interface that features have to live state."""

    @property
    def shared(self) -> bool:
        """True if other processes use the same board."""

    def transact(self, work: Work[T], near: Iterable[Key] = ()) -> Deferred[T]:
        """Run ``work``; fires once it is committed and its news is delivered.

        ``near`` names entries that ``work`` reads in any case, so that an external engine loads
        them together. The result must not depend on it.
        """

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        """Call ``listener`` with all news of this type, in one order for all processes."""

    def reads_as(self, name: str) -> None:
        """Let this process skip news whose ``readers`` are not empty and do not include ``name``.

        A memory board delivers everything to every listener.
        """

    def forget_at_start(self, *keys: Key) -> None:
        """Delete these entries unless a process that called this is already running.

        Call it before the service starts. It is done before any transaction.
        """

    def when_missed(self, look: Callable[[], None]) -> None:
        """Call ``look`` whenever news of other processes may have been missed."""
