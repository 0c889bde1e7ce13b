"""A ledger for feature tests: in memory, in the calling thread, done when it returns."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import create_engine, event
from sqlalchemy.pool import StaticPool
from twisted.internet.defer import Deferred, maybeDeferred

from svcserver.db.ledger import Work
from svcserver.db.tables import METADATA

T = TypeVar("T")


class InstantLedger:
    """Every table of every imported feature, on an empty SQLite in memory."""

    def __init__(self) -> None:
        self.engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"isolation_level": None, "check_same_thread": False},
        )
        event.listen(self.engine, "begin", lambda tx: tx.exec_driver_sql("BEGIN"))
        METADATA.create_all(self.engine)

    def read(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.read``."""
        return maybeDeferred(self.now, work)

    def write(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.write``."""
        return maybeDeferred(self.now, work)

    def now(self, work: Work[T]) -> Any:
        """Run ``work`` in a transaction and return what it returns; for set-up and checks."""
        with self.engine.begin() as tx:
            return work(tx)
