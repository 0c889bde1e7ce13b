"""The interface to live state: ``transact`` runs synchronous work on a transaction.

    await board.transact(lambda transaction: leave(BoardParties(transaction), me), near=keys)

``work(transaction)`` reads and writes entries. If it raises, nothing is written. ``work`` may run
more than once, so it has no effect outside its transaction, which also provides the time and new
ids and takes the news to send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from svcserver.board.kinds import Kind

T = TypeVar("T")
N = TypeVar("N")
Key = tuple[Kind[Any], str]


class BoardTransaction(Protocol):
    """The board's unit of work: one open transaction on live state, which reads and writes.

    All of it counts or, where the work raises, nothing.
    """

    @property
    def now(self) -> float:
        """Epoch seconds by the engine's clock; the same at every run of the work."""

    def new_id(self) -> str:
        """A random UUID; a repeated run draws the same ones."""

    def get(self, kind: Kind[T], key: str) -> T | None:
        """The entry, or None where there is none or it has expired."""

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        """Write an entry; its time to live begins anew.

        What was not read before is written blind: the last one wins, and nobody's act runs again.
        """

    def drop(self, kind: Kind[Any], key: str) -> None:
        """Delete an entry, if there is one."""

    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        """Every entry of a listed kind, the one that was put longest ago first.

        What changes meanwhile does not make the act run again.
        """

    def count(self, kind: Kind[Any]) -> int:
        """The number of entries that ``each`` gives."""

    def publish(self, news: object) -> None:
        """News for those who ``Board.listen``; delivered after the act, never by one undone."""


Work = Callable[[BoardTransaction], T]


class Board(Protocol):
    """What features need of live state."""

    @property
    def shared(self) -> bool:
        """Whether other processes act on it, too."""

    def transact(self, work: Work[T], near: Iterable[Key] = ()) -> Deferred[T]:
        """Run ``work``; fires when what it wrote counts and its news has been told.

        ``near`` names what it will read for sure, so that an engine elsewhere brings it in one go.
        It must not be needed for the answer to be right.
        """

    def listen(self, news: type[N], listener: Callable[[N], None]) -> None:
        """From now on ``listener`` is called with every piece of such news, in one order."""

    def reads_as(self, name: str) -> None:
        """From now on this process reads news whose ``readers`` have ``name`` among them.

        It skips unread what is for others. A piece of news that has no such field, or nobody in it,
        is for all. A board in memory gives everything to every listener.
        """

    def forget_at_start(self, *keys: Key) -> None:
        """Delete these entries unless a process that forgets such entries runs already.

        It is asked for before the service starts, and done before any act.
        """

    def when_missed(self, look: Callable[[], None]) -> None:
        """``look`` is called when news of other processes may have been missed."""
