"""A ledger for feature tests that works in the calling thread and finishes before it returns.

The default database is SQLite in memory. With ``SVC_TEST_DATABASE=postgresql`` the same tests run
on a throw-away PostgreSQL, which has different rules for types, locks and failed statements.
"""

import os
import weakref
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    event,
    exists,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.pool import StaticPool
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from svcserver.db.engine import is_sqlite
from svcserver.db.fast_execute import FastConnection, Plans
from svcserver.db.ledger import ACROSS, Scope, Work
from svcserver.db.pipeline import Pipeline
from svcserver.db.pipelined import MAX_LIST, Spoilt, together
from svcserver.db.postgres_runs import COMMITTED
from svcserver.db.tables import METADATA
from tests.support.postgres import fresh_database

T = TypeVar("T")

_free: list[tuple[Engine, Pipeline]] = []  # PostgreSQL databases that their ledgers have released
_made: dict[Engine, int] = {}  # the number of tables in each
_templates: dict[int, Any] = {}  # SQLite connections by their number of tables
_plans = Plans()  # shared by all tests: most statements are planned, as on a busy server
_pipelined_plans = Plans(MAX_LIST)


class InstantLedger:
    """A ledger with an empty table for every table of the imported features.

    ``free`` releases the database; without this call, the garbage collector releases it. If
    ``engine`` is an SQLite engine, the ledger uses its database instead of a new one.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        if engine is not None:
            self.engine = engine
            self.free = weakref.finalize(self, engine.dispose)
        elif os.environ.get("SVC_TEST_DATABASE") == "postgresql":
            self.engine, self._pipeline = _unused()
            self.run(_empty)
            self.free = weakref.finalize(self, _free.append, (self.engine, self._pipeline))
        else:
            self.engine = _in_memory()
            self.free = weakref.finalize(self, self.engine.dispose)

    def read_snapshot(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.read_snapshot``."""
        return maybeDeferred(self.run, work)

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        """See ``Ledger.write``."""
        return maybeDeferred(self.run, work)

    def run(self, work: Work[T]) -> Any:
        """Run ``work`` in a transaction and return what it returns; for set-up and checks."""
        if not is_sqlite(self.engine):
            return self._pipelined(work)
        with self.engine.begin() as tx:
            return work(FastConnection(tx, _plans))

    def _pipelined(self, work: Work[T]) -> Any:
        """Run the work as the threads of ``PostgresLedger`` do."""
        pipeline = self._pipeline
        pipeline.begin(COMMITTED)
        try:
            [result] = together(pipeline, _pipelined_plans, [work])
        except Spoilt as why:
            [result] = why.by.values()
        if isinstance(result, Failure):
            pipeline.roll_back()
            result.raiseException()
        pipeline.commit()
        return result


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
    """Return an empty database with the tables of all imported features; copying it is fast."""
    tables = len(METADATA.tables)
    if tables not in _templates:
        made = create_engine("sqlite://", poolclass=StaticPool)
        METADATA.create_all(made)
        with made.connect() as connection:
            _templates[tables] = _driver(connection)
    return _templates[tables]


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def _unused() -> tuple[Engine, Pipeline]:
    """Return a database with all tables: a released database, or a new database."""
    if _free:
        engine, pipeline = _free.pop()
    else:
        engine = create_engine(fresh_database(), pool_size=2)
        pipeline = Pipeline(engine)
        _made[engine] = 0
    # features that were imported since then have added tables
    if _made[engine] != len(METADATA.tables):
        METADATA.create_all(engine)
        _made[engine] = len(METADATA.tables)
    return engine, pipeline


def filled(tx: Connection) -> set[str]:
    """Return the names of the tables that have rows."""
    return set(tx.execute(_statements(len(METADATA.tables))[0]).scalars())


def _empty(tx: Connection) -> None:
    names = filled(tx)
    for name, delete in _statements(len(METADATA.tables))[1].items():
        if name in names:
            tx.execute(delete)


@lru_cache(maxsize=16)
def _statements(tables: int) -> tuple[Any, dict[str, Any]]:
    """Return the query for the tables with rows, and each table's DELETE, dependent tables first.

    They are the same objects in each run, because each is prepared once per connection.
    """
    order = METADATA.sorted_tables[::-1]
    row: Any = literal_column("1")
    query: Any = union_all(
        *(
            select(literal_column(f"'{table.name}'")).where(exists(select(row).select_from(table)))
            for table in order
        )
    )
    return query, {table.name: table.delete() for table in order}
