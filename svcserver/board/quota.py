"""A count of events per key and window, of which a place can be taken and given back.

A place is taken before a transaction of the database that may turn out to need none, so that
two at once never share the last one:

    async with ASKED.place(board, account) as place:
        place.used = await act(may=place.free)
"""

from __future__ import annotations

from attrs import define, field, frozen

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.waiting import with_fallback

MOST = 65_536  # keys


@frozen
class Quota:
    """At most ``limit`` places per key in any time that entries of ``kind`` live."""

    kind: Kind[tuple[float, ...]]
    limit: int

    @classmethod
    def of(cls, name: str, limit: int, window_s: float) -> Quota:
        """With a kind of its own, called ``name``."""
        shape = tuple[float, ...]
        # not sealed: a forged count refuses somebody for a while, and whoever could forge it could
        # empty it as well; a count that must withstand that is kept in the database
        return cls(Kind(name, shape, lives_s=window_s, most=MOST, sealed=False), limit)

    def take(self, transaction: BoardTransaction, key: str) -> float | None:
        """Take a place; when it was taken, or None when none is left."""
        taken = self._taken(transaction, key)
        if len(taken) >= self.limit:
            return None
        transaction.put(self.kind, key, (*taken, transaction.now))
        return transaction.now

    def take_or_wait(self, transaction: BoardTransaction, key: str) -> float:
        """Take a place; 0.0 when it was taken, else the seconds until one can be."""
        if self.take(transaction, key) is not None:
            return 0.0
        return self._taken(transaction, key)[0] + self.kind.lives_s - transaction.now

    def is_full(self, transaction: BoardTransaction, key: str) -> bool:
        """Whether no place is left."""
        return len(self._taken(transaction, key)) >= self.limit

    def give_back(self, transaction: BoardTransaction, key: str, at: float) -> None:
        """Undo the ``take`` that gave ``at``; fine if its time is over."""
        taken = list(self._taken(transaction, key))
        if at not in taken:
            return
        taken.remove(at)
        if taken:
            transaction.put(self.kind, key, tuple(taken))
        else:
            transaction.drop(self.kind, key)

    def place(self, board: Board, key: str) -> Place:
        """A place for the time of an act, given back unless the act has used it."""
        return Place(self, board, key)

    def _taken(self, transaction: BoardTransaction, key: str) -> tuple[float, ...]:
        taken = transaction.get(self.kind, key) or ()
        return tuple(at for at in taken if at > transaction.now - self.kind.lives_s)


@define
class Place:
    """A place of ``of`` in the quota; ``used``: it is not to be given back."""

    quota: Quota
    board: Board
    of: str
    used: bool = field(default=False, init=False)
    _at: float | None = field(default=None, init=False)

    @property
    def free(self) -> bool:
        return self._at is not None

    async def __aenter__(self) -> Place:
        self._at = await self.board.transact(
            lambda transaction: self.quota.take(transaction, self.of),
            near=[(self.quota.kind, self.of)],
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        at = self._at
        thrown_away = kind is GeneratorExit  # with its process, and may not wait any more
        if at is not None and not self.used and not thrown_away:
            back = self.board.transact(
                lambda transaction: self.quota.give_back(transaction, self.of, at)
            )
            await with_fallback(back, None)  # it comes back by itself when its time is over
