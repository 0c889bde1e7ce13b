"""Transactions for startup and for ``svcctl``, and retries after conflicts."""

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
MAX_CONFLICTS = 30  # conflicts of one job with other transactions
MAX_DUPLICATES = 4  # the second run reads the other transaction's row; more runs mean a bug
_CONFLICTS = {"40001", "40P01"}  # serialization failure, deadlock


@contextmanager
def transaction(engine: Engine, wait_ms: int = WAIT_MS) -> Iterator[Connection]:
    """Yield a connection in a transaction that is committed completely or not at all.

    On SQLite, ``Engine.begin`` alone would commit each statement separately. ``wait_ms`` is how
    long SQLite waits for another writer. On PostgreSQL, the transaction sees what other
    transactions commit meanwhile, so use ``transact`` for work that reads and then writes.
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
    """Run ``work(tx)`` in a serializable transaction and return its result.

    ``work`` runs again after a conflict with another transaction.
    """
    if not is_sqlite(engine):
        return serializable(engine.execution_options(isolation_level="SERIALIZABLE"), work)
    with transaction(engine, wait_ms) as tx:
        return work(tx)


def serializable(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Run ``work`` on PostgreSQL and commit; retry after a conflict with another transaction.

    A violated uniqueness constraint also counts as a conflict. Retries after such a violation
    have their own limit, ``MAX_DUPLICATES``.
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
    """The retries of one transaction, counted by cause."""

    conflicts: int = 0
    duplicates: int = 0

    def again(self, why: BaseException | None) -> bool:
        """Return whether to retry after this error; if so, pause first."""
        if not self.counts(why):
            return False
        if self.conflicts >= MAX_CONFLICTS or self.duplicates >= MAX_DUPLICATES:
            return False
        _wait(self.conflicts + self.duplicates)
        return True

    def counts(self, why: BaseException | None) -> bool:
        """Return whether another transaction caused the error; if so, count the error.

        A retry is useful only after such an error.
        """
        if isinstance(why, DBAPIError) and getattr(why.orig, "sqlstate", None) in _CONFLICTS:
            self.conflicts += 1
        elif isinstance(why, IntegrityError):
            self.duplicates += 1
        else:
            return False
        return True


def _wait(attempt: int) -> None:
    # S311: the random number only spreads retries and is not a secret
    Event().wait(random.random() * min(0.002 * 2**attempt, 0.1))  # noqa: S311
