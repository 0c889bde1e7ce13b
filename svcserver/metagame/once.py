"""Executes a request only once, even if the gateway repeats the request.

The gateway repeats a request if the metagame stops before it replies. Each POST, PUT, PATCH and
DELETE gets a random id from the gateway. Repeated attempts have the same id and an attempt number
above 1. Each route declares how it handles repeated attempts:

    @routes.row("DELETE", "/guild/player", access=Access.PLAYER, again=Again.STORED)

A STORED route saves the result of its transaction ``work`` under the request's id, in the same
transaction. It runs this function instead of ``work``:

    attempt.once(work, GuildChanged)

A later attempt reads that result, and ``work`` does not run again. Reply and signals are made from
the stored result, so they are the same for a later attempt. A later attempt whose id is unknown
runs like a first attempt.

A transaction of the board (the store of live state) publishes its own events at the commit. A
later attempt finds the stored result, and publishes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import count
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from svcserver.board.board import Board, BoardTransaction, Key
from svcserver.board.board import Work as BoardWork
from svcserver.board.kinds import Kind, decode, encode
from svcserver.db.ledger import Work
from svcserver.db.tables import METADATA
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict
from svcserver.kernel.system import epoch

T = TypeVar("T")

KEPT_S = 600.0  # seconds; the gateway stops retrying long before
MOST_BYTES = 128 * 1024  # largest stored result; the gateway never retries larger bodies
MOST_ON_BOARD = 16_384  # maximum number of results of one kind
BATCH = 1_000  # rows deleted in one transaction


class Again(Enum):
    """The way in which a route handles a repeated request."""

    # A later attempt runs again: it gets the same reply and changes nothing more, even after other
    # requests. Game servers' routes are also NATURAL: the gateway never repeats their requests.
    NATURAL = "natural"
    STORED = "stored"  # the first attempt's result is stored
    NEVER = "never"  # a second attempt is refused with 502


ATTEMPTS = sa.Table(
    "attempts",
    METADATA,
    sa.Column("request_id", sa.String(32), primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False, index=True),  # epoch milliseconds
    sa.Column("account_id", sa.String(64), nullable=False),
    sa.Column("row", sa.String(128), nullable=False),
    sa.Column("result", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
_A = ATTEMPTS.c
_ADD = sa.insert(ATTEMPTS)
_FIND = sa.select(_A.account_id, _A.row, _A.result).where(_A.request_id == sa.bindparam("wanted"))
_OLDEST = (
    sa.select(_A.request_id).where(_A.at < sa.bindparam("before")).order_by(_A.at).limit(BATCH)
)
_FORGET = sa.delete(ATTEMPTS).where(_A.request_id.in_(_OLDEST))


def of_requests(name: str) -> sa.Index:
    """Return the unique index of a table's ``request_id`` column.

    In the database, the index omits rows without a ``request_id`` (see the migration).
    """
    return sa.Index(name, "request_id", unique=True)


@frozen
class StoredResult(Generic[T]):
    """The result of a board transaction, with the account and the route of the request."""

    account_id: AccountId
    row: str
    result: T


def results(name: str, shape: Any) -> Kind[StoredResult[Any]]:
    """Return the kind of board entry that stores results of the type ``shape``, or None."""
    return Kind(name, StoredResult[shape | None], lives_s=KEPT_S, most=MOST_ON_BOARD)


@define(eq=False)  # not frozen, which is slower: one is made for every request
class Attempt:
    """One attempt of a request; ``request_id`` is "" if the request bypassed the gateway.

    The transaction sets ``was_done`` if an earlier attempt had already done the work.
    """

    request_id: str = ""
    number: int = 1
    account_id: AccountId = ""
    row: str = ""
    seconds: Callable[[], float] = field(default=epoch, repr=False)
    was_done: bool = field(default=False, init=False)

    @property
    def is_again(self) -> bool:
        """Return whether an earlier attempt of this request may have been executed."""
        return self.number > 1

    def once(self, work: Work[T], shape: Any = None) -> Work[T]:
        """Return a function that runs ``work`` in the first attempt and stores its result.

        In later attempts, the function returns the stored result. ``shape`` is the result's type.
        """
        if not self.request_id:
            return work

        def find(tx: sa.Connection) -> tuple[T] | None:
            row = tx.execute(_FIND, {"wanted": self.request_id}).first()
            return None if row is None else (decode(self._own(*row), shape),)

        def run(tx: sa.Connection) -> T:
            result = work(tx)
            data = encode(result, shape)
            row = {
                "request_id": self.request_id,
                "at": round(self.seconds() * 1000),
                "account_id": self.account_id,
                "row": self.row,
                "result": data,
            }
            if len(data) <= MOST_BYTES:
                tx.execute(_ADD, row)
            return result

        return self.unless(find, run)

    def unless(self, find: Callable[[sa.Connection], tuple[T] | None], work: Work[T]) -> Work[T]:
        """Return a function that runs ``work``, unless ``find`` returns an earlier result.

        ``work`` must store the request id in a unique column. If two attempts run at once, only one
        can commit. The ledger (``db.ledger``) reruns the other attempt, which then calls ``find``.
        If ``work`` raises a refusal, no result is stored, so a later attempt runs ``work`` again.
        """
        if not self.request_id:
            return work
        runs = count(self.number)

        def run(tx: sa.Connection) -> T:
            earlier = find(tx) if next(runs) > 1 else None
            self.was_done = earlier is not None
            return work(tx) if earlier is None else earlier[0]

        return run

    def transact(
        self,
        board: Board,
        work: BoardWork[T],
        kind: Kind[StoredResult[Any]],
        near: Iterable[Key] = (),
    ) -> Deferred[T]:
        """Run ``work`` once in a board transaction; store the result as an entry of ``kind``."""
        return board.transact(self.in_transaction(work, kind), [*near, *self.near(kind)])

    def near(self, kind: Kind[StoredResult[Any]]) -> list[Key]:
        """Return the board keys that ``in_transaction`` always reads."""
        return [(kind, self.request_id)] if self.request_id else []

    def in_transaction(self, work: BoardWork[T], kind: Kind[StoredResult[Any]]) -> BoardWork[T]:
        """Return a function that runs ``work`` once; later attempts get the stored result."""
        if not self.request_id:
            return work

        def run(transaction: BoardTransaction) -> T:
            stored = transaction.get(kind, self.request_id)
            if stored is not None:
                done: T = self._own(stored.account_id, stored.row, stored.result)
                return done
            result = work(transaction)
            transaction.put(kind, self.request_id, StoredResult(self.account_id, self.row, result))
            return result

        return run

    def _own(self, account_id: AccountId, row: str, result: Any) -> Any:
        if (account_id, row) != (self.account_id, self.row):
            raise Conflict("this id belongs to another request")
        return result


ONLY = Attempt()


def forget_attempts(tx: sa.Connection, now: float) -> int:
    """Delete one batch of stored results of old requests; return how many were deleted."""
    return tx.execute(_FORGET, {"before": round((now - KEPT_S) * 1000)}).rowcount
