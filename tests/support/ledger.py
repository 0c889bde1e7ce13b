"""A ledger for feature tests: in the calling thread, done when it returns.

In memory on SQLite; with ``SVC_TEST_DATABASE=postgresql`` the same tests run on a throw-away
PostgreSQL, which has rules of its own (types, locks, what a failed statement leaves behind).
"""

from __future__ import annotations

import os
import weakref
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import StaticPool
from twisted.internet.defer import Deferred, maybeDeferred

from svcserver.db.engine import is_sqlite
from svcserver.db.fast_execute import FastConnection, Plans
from svcserver.db.ledger import Work
from svcserver.db.tables import METADATA
from tests.support.postgres import fresh_database

T = TypeVar("T")

_free: list[Engine] = []  # PostgreSQL databases whose ledger is gone
_templates: dict[int, Any] = {}  # SQLite connections by their number of tables
_plans = Plans()  # of all tests, so that most statements are run as a busy server runs them


class InstantLedger:
    """Every table of every imported feature, empty."""

    def __init__(self) -> None:
        if os.environ.get("SVC_TEST_DATABASE") == "postgresql":
            self.engine = _emptied()
            weakref.finalize(self, _free.append, self.engine)
        else:
            self.engine = _in_memory()

    def read(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.read``."""
        return maybeDeferred(self.now, work)

    def write(self, work: Work[T], turn: str | None = None) -> Deferred[T]:
        """See ``Ledger.write``."""
        return maybeDeferred(self.now, work)

    def now(self, work: Work[T]) -> Any:
        """Run ``work`` in a transaction and return what it returns; for set-up and checks."""
        with self.engine.begin() as tx:
            return work(FastConnection(tx, _plans) if is_sqlite(self.engine) else tx)


def _in_memory() -> Engine:
    engine = create_engine(
        "sqlite://",
        poolclass=StaticPool,
        connect_args={"isolation_level": None, "check_same_thread": False},
    )
    event.listen(engine, "begin", lambda tx: tx.exec_driver_sql("BEGIN"))
    with engine.connect() as connection:
        _template().backup(_driver(connection))
    return engine


def _template() -> Any:
    """An empty database with the tables of every feature imported by now: copied in no time."""
    tables = len(METADATA.tables)
    if tables not in _templates:
        made = create_engine("sqlite://", poolclass=StaticPool)
        METADATA.create_all(made)
        with made.connect() as connection:
            _templates[tables] = _driver(connection)
    return _templates[tables]


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def _emptied() -> Engine:
    """A database nobody uses: one that was left, emptied, or a new one."""
    engine = _free.pop() if _free else create_engine(fresh_database(), pool_size=1)
    METADATA.create_all(engine)  # the tables of features imported since
    with engine.begin() as tx:
        for table in reversed(METADATA.sorted_tables):
            tx.execute(table.delete())
    return engine
