"""A limit on the number of events per key and time window.

If a database transaction decides whether an event happens, count the event before the transaction,
and undo this afterwards if there was no event. So two concurrent requests cannot both be the last
event that the limit allows:

    async with REQUESTS_SENT.place(board, account) as place:
        place.used = await request(allowed=place.free)
"""

from __future__ import annotations

from attrs import define, field, frozen

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.waiting import with_fallback

MOST = 65_536  # keys


@frozen
class Quota:
    """A limit on events: at most ``limit`` for each key within ``kind.lives_s`` seconds."""

    kind: Kind[tuple[float, ...]]
    limit: int

    @classmethod
    def named(cls, name: str, limit: int, window_s: float) -> Quota:
        """Return a quota; no other quota and no ``Kind`` may have the same name."""
        shape = tuple[float, ...]
        # not sealed: a forger could delete the count anyway, and a forged count only refuses
        # requests for a while; a count that must be safe from forgery is in the database
        return cls(Kind(name, shape, lives_s=window_s, most=MOST, sealed=False), limit)

    def take(self, transaction: BoardTransaction, key: str) -> float | None:
        """Count an event and return its time, or return None if the limit is reached."""
        taken = self._taken(transaction, key)
        if len(taken) >= self.limit:
            return None
        transaction.put(self.kind, key, (*taken, transaction.now))
        return transaction.now

    def take_or_wait(self, transaction: BoardTransaction, key: str) -> float:
        """Count an event and return 0.0, or return the seconds until the limit allows an event."""
        if self.take(transaction, key) is not None:
            return 0.0
        return self._taken(transaction, key)[0] + self.kind.lives_s - transaction.now

    def is_full(self, transaction: BoardTransaction, key: str) -> bool:
        return len(self._taken(transaction, key)) >= self.limit

    def give_back(self, transaction: BoardTransaction, key: str, at: float) -> None:
        """Stop counting the event of the time ``at``; does nothing if the event has expired."""
        taken = list(self._taken(transaction, key))
        if at not in taken:
            return
        taken.remove(at)
        if taken:
            transaction.put(self.kind, key, tuple(taken))
        else:
            transaction.drop(self.kind, key)

    def place(self, board: Board, key: str) -> QuotaPlace:
        """Return a context manager that counts an event, and undoes this unless ``used`` is set."""
        return QuotaPlace(self, board, key)

    def _taken(self, transaction: BoardTransaction, key: str) -> tuple[float, ...]:
        taken = transaction.get(self.kind, key) or ()
        return tuple(at for at in taken if at > transaction.now - self.kind.lives_s)


@define
class QuotaPlace:
    """An event counted for ``key``; ``async with`` undoes the count unless ``used`` is set."""

    quota: Quota
    board: Board
    key: str
    used: bool = field(default=False, init=False)
    _at: float | None = field(default=None, init=False)

    @property
    def free(self) -> bool:
        return self._at is not None

    async def __aenter__(self) -> QuotaPlace:
        self._at = await self.board.transact(
            lambda transaction: self.quota.take(transaction, self.key),
            near=[(self.quota.kind, self.key)],
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        at = self._at
        closing = kind is GeneratorExit  # the process ends, and waiting is forbidden
        if at is not None and not self.used and not closing:
            returned = self.board.transact(
                lambda transaction: self.quota.give_back(transaction, self.key, at)
            )
            await with_fallback(returned, None)  # if this fails, the place expires by itself
