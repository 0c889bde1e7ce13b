"""The ledger on PostgreSQL: a few connections in threads; the server groups commits itself.

Writes run SERIALIZABLE, as they do on SQLite's single writer, so a rule that reads and
then writes holds under concurrency. A transaction that the server rolls back for a conflict
is run again. A read sees one snapshot from its first statement to its last, as on SQLite;
reads have threads of their own, so that they never wait for writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

from attrs import define
from sqlalchemy import Engine, event
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from svcserver.db.engine import READERS, WRITERS
from svcserver.db.faults import Faults
from svcserver.db.ledger import Work
from svcserver.db.transaction import serializable
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.refusals import Unavailable

T = TypeVar("T")

MAX_WAITING = 10_000
STATEMENT_S = 30  # ours take milliseconds; another program's lock must not block us for ever


@define(eq=False)
class Job:
    """Accepted work; ``turn``: see ``Ledger.write``."""

    pool: ThreadPool
    run: Callable[[], Any]
    done: Deferred[Any]
    turn: str | None


class PostgresLedger(Service):
    """The Ledger on a PostgreSQL server."""

    def __init__(self, engine: Engine, reactor: Any, counters: Counters) -> None:
        self._engine = engine
        self._snapshot = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._serializable = engine.execution_options(isolation_level="SERIALIZABLE")
        self._reactor = reactor
        self._readers = ThreadPool(minthreads=1, maxthreads=READERS, name="database-read")
        self._writers = ThreadPool(minthreads=1, maxthreads=WRITERS, name="database-write")
        self._faults = Faults(reactor.seconds)
        self._under_way = 0
        self._counters = counters
        self._turns: dict[str, deque[Job]] = {}  # those that wait for one that is under way
        self._closed: Deferred[None] | None = None
        event.listen(engine, "connect", _limit)
        engine.dispose()  # connections of the start, whose migrations may take longer

    def startService(self) -> None:
        Service.startService(self)
        self._readers.start()
        self._writers.start()

    def stopService(self) -> Deferred[None]:
        """Finish what was accepted, then close; the reactor does not wait for it."""
        Service.stopService(self)
        if self._closed is None:
            self._closed = Deferred()
            self._close_when_idle()
        return self._closed

    def read(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.read``."""
        return self._submit(self._readers, lambda: self._look(work), None)

    def write(self, work: Work[T], turn: str | None = None) -> Deferred[T]:
        """See ``Ledger.write``."""

        def run() -> T:
            return serializable(self._serializable, work, self._again)

        return self._submit(self._writers, run, turn)

    def _again(self) -> None:
        self._reactor.callFromThread(self._counters.add, Counted.RERUN_TRANSACTIONS)

    def _submit(self, pool: ThreadPool, run: Callable[[], T], turn: str | None) -> Deferred[T]:
        if not self.running or self._under_way >= MAX_WAITING:
            return fail(Unavailable("the database is busy", retry_after_s=1))
        self._under_way += 1
        job = Job(pool, run, Deferred(), turn)
        if turn is not None and turn in self._turns:
            self._turns[turn].append(job)
        else:
            self._begin(job)
        return job.done

    def _begin(self, job: Job) -> None:
        if job.turn is not None:
            self._turns.setdefault(job.turn, deque())

        def ended(success: bool, result: Any) -> None:
            self._reactor.callFromThread(self._ended, job, result)

        job.pool.callInThreadWithCallback(ended, job.run)

    def _ended(self, job: Job, result: Any) -> None:
        """Deliver the result; a job counts as waiting until here, even if its caller has left."""
        self._under_way -= 1
        self._next(job.turn)
        if isinstance(result, Failure):
            result = self._faults.refuse(result)
        if not job.done.called:  # a caller may have cancelled; its write stands
            job.done.callback(result)
        self._close_when_idle()

    def _next(self, turn: str | None) -> None:
        if turn is None:
            return
        if waiting := self._turns[turn]:
            self._begin(waiting.popleft())
        else:
            del self._turns[turn]

    def _look(self, work: Work[T]) -> T:
        with self._snapshot.connect() as tx:
            return work(tx)

    def _close_when_idle(self) -> None:
        if self._closed is not None and not self._under_way:
            Thread(target=self._close, name="database-close", daemon=True).start()

    def _close(self) -> None:
        try:
            self._readers.stop()
            self._writers.stop()
            self._engine.dispose()
        finally:
            self._reactor.callFromThread(self._said_closed)

    def _said_closed(self) -> None:
        if self._closed is not None:
            self._closed.callback(None)


def _limit(connection: Any, record: Any) -> None:
    connection.execute(f"SET statement_timeout = {round(STATEMENT_S * 1000)}")
    connection.commit()
