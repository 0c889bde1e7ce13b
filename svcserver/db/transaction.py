"""One transaction: at start, from the owner's command line, and each of PostgreSQL's ledger."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from svcserver.db.engine import is_sqlite

T = TypeVar("T")

WAIT_MS = 5_000
MAX_CONFLICTS = 30  # of one piece of work with other transactions
MAX_DUPLICATES = 4  # a run after the first reads the row that won; more is a mistake of ours
_CONFLICTS = {"40001", "40P01"}  # serialization failure, deadlock


@contextmanager
def transaction(engine: Engine, wait_ms: int = WAIT_MS) -> Iterator[Connection]:
    """A connection whose work is committed whole or not at all.

    Our SQLite connections say BEGIN themselves, so ``Engine.begin`` alone would commit
    each statement by itself there. ``wait_ms``: how long to wait for another writer.
    On PostgreSQL others' commits show in between: read-and-write is for ``transact``.
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


def transact(engine: Engine, work: Callable[[Connection], T], wait_ms: int = WAIT_MS) -> T:
    """What ``work(tx)`` gives, as if nobody else used the database; it may run twice."""
    if not is_sqlite(engine):
        return serializable(engine.execution_options(isolation_level="SERIALIZABLE"), work)
    with transaction(engine, wait_ms) as tx:
        return work(tx)


def serializable(
    engine: Engine, work: Callable[[Connection], T], again: Callable[[], None] = lambda: None
) -> T:
    """Run and commit on PostgreSQL; again when another transaction got in between.

    A broken uniqueness is such a case too: the second run reads the row that won and gives
    the documented refusal. It has a budget of its own, so that it gets its second run in a
    crowd that has used up others. ``again`` is told of each further run.
    """
    conflicts = duplicates = 0
    while True:
        try:
            with engine.begin() as tx:
                return work(tx)
        except DBAPIError as why:
            if getattr(why.orig, "sqlstate", None) in _CONFLICTS:
                conflicts += 1
            elif isinstance(why, IntegrityError):
                duplicates += 1
            else:
                raise
            if conflicts >= MAX_CONFLICTS or duplicates >= MAX_DUPLICATES:
                raise
        again()
        _wait(conflicts + duplicates)


def _wait(attempt: int) -> None:
    # S311: spreads the retries, no secret
    Event().wait(random.random() * min(0.002 * 2**attempt, 0.1))  # noqa: S311
