"""Single transactions at the start and from ``svcctl``, and the rule of their retries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import TypeVar

from attrs import define
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from svcserver.db.engine import is_sqlite

T = TypeVar("T")

WAIT_MS = 5_000
MAX_CONFLICTS = 30  # of one piece of work with other transactions
MAX_DUPLICATES = 4  # the second run reads the row that won; more are a bug
_CONFLICTS = {"40001", "40P01"}  # serialization failure, deadlock


@contextmanager
def transaction(engine: Engine, wait_ms: int = WAIT_MS) -> Iterator[Connection]:
    """Give a connection whose work is committed whole or not at all.

    Our SQLite connections are in autocommit mode, so ``Engine.begin`` alone would commit each
    statement by itself. ``wait_ms``: how long to wait for another writer. On PostgreSQL commits
    of others become visible in between: work that reads and then writes is for ``transact``.
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
    """Run ``work(tx)`` in a serializable transaction and return its result; it may run twice."""
    if not is_sqlite(engine):
        return serializable(engine.execution_options(isolation_level="SERIALIZABLE"), work)
    with transaction(engine, wait_ms) as tx:
        return work(tx)


def serializable(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Run and commit on PostgreSQL, again after a conflict with another transaction.

    A violated uniqueness is a conflict, too: the second run reads the row that won and gives
    the documented refusal. It has a retry budget of its own, so that it gets its second run
    even after many serialization failures.
    """
    tries = Tries()
    while True:
        try:
            with engine.begin() as tx:
                return work(tx)
        except DBAPIError as why:
            if not tries.again(why):
                raise


@define
class Tries:
    """The retries of a transaction."""

    conflicts: int = 0
    duplicates: int = 0

    def again(self, why: BaseException | None) -> bool:
        """Return whether to run it again after this error, having waited for the next try."""
        if not self.counts(why):
            return False
        if self.conflicts >= MAX_CONFLICTS or self.duplicates >= MAX_DUPLICATES:
            return False
        _wait(self.conflicts + self.duplicates)
        return True

    def counts(self, why: BaseException | None) -> bool:
        """Return whether another transaction caused the error, so that a retry is worth it."""
        if isinstance(why, DBAPIError) and getattr(why.orig, "sqlstate", None) in _CONFLICTS:
            self.conflicts += 1
        elif isinstance(why, IntegrityError):
            self.duplicates += 1
        else:
            return False
        return True


def _wait(attempt: int) -> None:
    # S311: spreads the retries, no secret
    Event().wait(random.random() * min(0.002 * 2**attempt, 0.1))  # noqa: S311
