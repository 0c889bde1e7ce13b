"""``Ledger``: the only access to the database. It runs synchronous work off the reactor thread.

    character = await ledger.write(lambda tx: SqlCharacters(tx).create(...))

``work(tx)`` gets a SQLAlchemy Core connection inside a transaction. A write's Deferred
fires only after the COMMIT that holds it; work that raises rolls back alone.

Stores issue module-level prebuilt statements with bindparams: building a statement per
call halves the throughput.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from attrs import define, frozen
from sqlalchemy import Connection
from twisted.internet.defer import Deferred

T = TypeVar("T")
Work = Callable[[Connection], T]


@define(unsafe_hash=True)  # not frozen: every write makes one
class OneAccount:
    """The scope of work that reads and writes only the data of this account.

    PostgreSQL locks the account's row before the work begins, and runs it READ COMMITTED.
    """

    account_id: str


@frozen
class Across:
    """The scope of work that depends on several accounts: PostgreSQL runs it SERIALIZABLE.

    Acts of one account, ``turn``, are run one after the other all the same.
    """

    turn: str | None = None


ACROSS = Across()
Scope = OneAccount | Across


class Ledger(Protocol):
    """A database that runs functions in transactions."""

    def read(self, work: Work[T]) -> Deferred[T]:
        """Run ``work`` on a snapshot; it must not write."""

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        """Run ``work`` in a transaction; fires after the commit.

        ``scope`` says how it is kept apart from others where transactions run at once; on
        SQLite they never do. docs/contributors/transactions.md says which acts go across, and why.
        """
