"""PostgreSQL: a few connections in threads; that server groups commits itself.

Writes run SERIALIZABLE, as they do on SQLite's single writer, so a rule that reads and
then writes holds under concurrency. A transaction the server gives up on is run again.
Reads see one snapshot from their first statement to their last, as on SQLite.
"""

from __future__ import annotations

import random
from threading import Event, Thread
from typing import Any, TypeVar

from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from svcserver.db.engine import POOL_SIZE
from svcserver.db.faults import Faults
from svcserver.db.ledger import Work
from svcserver.kernel.refusals import Unavailable

T = TypeVar("T")

MAX_WAITING = 10_000
MAX_TRIES = 30
STATEMENT_S = 30  # ours take milliseconds; a foreign lock must not hold up everybody for ever
_TRY_AGAIN = {"40001", "40P01"}  # serialization failure, deadlock


class PostgresLedger(Service):
    """The Ledger on a PostgreSQL server."""

    def __init__(self, engine: Engine, reactor: Any) -> None:
        self._engine = engine
        self._snapshot = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._serializable = engine.execution_options(isolation_level="SERIALIZABLE")
        self._reactor = reactor
        self._pool = ThreadPool(minthreads=1, maxthreads=POOL_SIZE, name="database")
        self._faults = Faults(reactor.seconds)
        self._waiting = 0
        self._closed: Deferred[None] | None = None
        event.listen(engine, "connect", _limit)
        engine.dispose()  # connections of the start, whose migrations may take longer

    def startService(self) -> None:
        """Start the threads."""
        Service.startService(self)
        self._pool.start()

    def stopService(self) -> Deferred[None]:
        """Finish what was accepted, then close; the reactor does not wait for it."""
        Service.stopService(self)
        if self._closed is None:
            self._closed = Deferred()
            Thread(target=self._close, name="database-close", daemon=True).start()
        return self._closed

    def _close(self) -> None:
        try:
            self._pool.stop()
            self._engine.dispose()
        finally:
            self._reactor.callFromThread(self._ended)

    def _ended(self) -> None:
        if self._closed is not None:
            self._closed.callback(None)

    def read(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.read``."""
        return self._submit(self._look, work)

    def write(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.write``."""
        return self._submit(self._transact, work)

    def _submit(self, how: Any, work: Work[T]) -> Deferred[T]:
        if not self.running or self._waiting >= MAX_WAITING:
            return fail(Unavailable("the database is busy", retry_after_s=1))
        self._waiting += 1
        done: Deferred[T] = deferToThreadPool(self._reactor, self._pool, how, work)
        return done.addBoth(self._counted).addErrback(self._faults.refuse)

    def _counted(self, result: Any) -> Any:
        self._waiting -= 1
        return result

    def _look(self, work: Work[T]) -> T:
        with self._snapshot.connect() as tx:
            return work(tx)

    def _transact(self, work: Work[T]) -> T:
        """Run and commit; again when another transaction got in between.

        A broken uniqueness is such a case too: the second run reads the row that won
        and gives the documented refusal.
        """
        for attempt in range(1, MAX_TRIES):
            try:
                with self._serializable.begin() as tx:
                    return work(tx)
            except DBAPIError as why:
                state = getattr(why.orig, "sqlstate", None)
                again = state in _TRY_AGAIN or (isinstance(why, IntegrityError) and attempt < 4)
                if not again:
                    raise
                # S311: spreads the retries, no secret
                Event().wait(random.random() * min(0.002 * 2**attempt, 0.1))  # noqa: S311
        with self._serializable.begin() as tx:
            return work(tx)


def _limit(connection: Any, record: Any) -> None:
    connection.execute(f"SET statement_timeout = {round(STATEMENT_S * 1000)}")
    connection.commit()
