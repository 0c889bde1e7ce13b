"""``Ledger``: the only access to the database. It runs synchronous work off the reactor thread.

    version = await ledger.write(lambda tx: rules.save(SqlCharacters(tx), ...))

``work(tx)`` gets a SQLAlchemy Core connection inside a transaction. A write's Deferred
fires only after the COMMIT that holds it; work that raises rolls back alone.

Stores issue module-level prebuilt statements with bindparams: building a statement per
call halves the throughput.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection
from twisted.internet.defer import Deferred

T = TypeVar("T")
Work = Callable[[Connection], T]


class Ledger(Protocol):
    """A database that runs functions in transactions; see the module."""

    def read(self, work: Work[T]) -> Deferred[T]:
        """Run ``work`` on a snapshot; it must not write."""

    def write(self, work: Work[T], turn: str | None = None) -> Deferred[T]:
        """Run ``work`` in a transaction; fires after the commit.

        ``turn`` names what the work locks: where transactions run at once, those of one name
        run one after the other instead of failing against each other.
        """
