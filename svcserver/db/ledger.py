"""``Ledger``: the only access to the database. It runs synchronous work off the reactor thread.

    character = await ledger.write(lambda tx: SqlCharacters(tx).create(...))

``work(tx)`` gets a SQLAlchemy Core connection inside a transaction. A write's Deferred fires only
after the COMMIT that includes the write. If ``work`` raises, only its own changes are rolled back.

Stores build their statements once, at module level, with bindparams. To build a statement for each
call would halve the throughput.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from attrs import define, frozen
from sqlalchemy import Connection
from twisted.internet.defer import Deferred

T = TypeVar("T")
Work = Callable[[Connection], T]


@define(unsafe_hash=True)  # not frozen: every write makes one
class OneAccount:
    """The ``scope`` for work that reads and writes only one account's data.

    PostgreSQL first locks the account's row, and then runs the work with READ COMMITTED isolation.
    """

    account_id: str


@frozen
class Across:
    """The ``scope`` for work that depends on several accounts; PostgreSQL runs it as SERIALIZABLE.

    ``turn`` can be an account id; jobs with the same ``turn`` run one after the other.
    """

    turn: str | None = None


ACROSS = Across()
Scope = OneAccount | Across


class Ledger(Protocol):
    """A database that runs functions inside transactions."""

    def read_snapshot(self, work: Work[T]) -> Deferred[T]:
        """Run ``work`` on a snapshot of the database; the work must not write."""

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        """Run ``work`` in a transaction; after the commit, the Deferred fires with the result.

        On PostgreSQL, ``scope`` says how to isolate the work from concurrent transactions.
        docs/contributors/transactions.md says which work uses ``Across``, and why.
        """
