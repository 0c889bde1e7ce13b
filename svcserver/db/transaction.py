"""One transaction outside the ledger: at start, and from the owner's command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from svcserver.db.engine import is_sqlite


@contextmanager
def transaction(engine: Engine, wait_ms: int = 5_000) -> Iterator[Connection]:
    """A connection whose work is committed whole or not at all.

    Our SQLite connections say BEGIN themselves, so ``Engine.begin`` alone would commit
    each statement by itself there. ``wait_ms``: how long to wait for another writer.
    """
    if not is_sqlite(engine):
        with engine.begin() as tx:
            yield tx
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.exec_driver_sql(f"PRAGMA busy_timeout={int(wait_ms)}")
        tx.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield tx
        except BaseException:
            tx.exec_driver_sql("ROLLBACK")
            raise
        tx.exec_driver_sql("COMMIT")
