"""The ledger on PostgreSQL: a few threads, each with a connection, that run jobs in batches.

Concurrent reads share a snapshot. Concurrent writes to single accounts share a READ COMMITTED
transaction, and this transaction locks the row of each account. Work that depends on several
accounts runs alone, as SERIALIZABLE, and is repeated after a conflict.
docs/contributors/transactions.md lists such work.
"""

from collections import deque
from threading import Thread
from typing import Any, TypeVar

from sqlalchemy import Column, Engine, event
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from svcserver.db.faults import DatabaseFaults
from svcserver.db.ledger import ACROSS, Across, OneAccount, Scope, Work
from svcserver.db.postgres_runs import LATER, AccountLock, AccountRuns, ReadRuns, SingleRuns
from svcserver.db.thread_pool import Job, Run, ThreadPool
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.refusals import Unavailable

T = TypeVar("T")

MAX_WAITING = 10_000
# our statements take milliseconds; another program's lock must not block them forever
STATEMENT_S = 30
READERS_OF = 4  # a quarter of the connections reads, a quarter writes single accounts


class PostgresLedger(Service):
    """The Ledger on a PostgreSQL server.

    ``accounts`` is the column with the account ids; each write to an account locks the account's
    row. Without such a column, every write runs as SERIALIZABLE.
    """

    def __init__(
        self,
        engine: Engine,
        reactor: Any,
        counters: Counters,
        accounts: Column[Any] | None = None,
    ) -> None:
        self._engine, self._reactor, self._counters = engine, reactor, counters
        lock = None if accounts is None else AccountLock(accounts)
        self._locks = lock is not None
        self._faults = DatabaseFaults(reactor.seconds)
        self._under_way = 0
        self._turns: dict[str, deque[Job]] = {}  # jobs that wait for a running job
        self._closed: Deferred[None] | None = None
        pool: Any = engine.pool
        connections = pool.size()
        some = max(1, connections // READERS_OF)
        self._readers = self._pool("database-read", some, ReadRuns())
        self._together = self._pool("database-write", some, AccountRuns(self._again, lock))
        rest = max(1, connections - 2 * some)
        self._singles = self._pool("database-single", rest, SingleRuns(self._again, lock))
        event.listen(engine, "connect", _prepare)
        engine.dispose()  # drops earlier connections, which have no statement timeout

    def startService(self) -> None:
        """Start the threads; each connects when it gets its first job."""
        Service.startService(self)
        for pool in self._pools():
            pool.start()

    def stopService(self) -> Deferred[None]:
        """Finish the accepted work, then close the connections, without blocking the reactor."""
        Service.stopService(self)
        if self._closed is None:
            self._closed = Deferred()
            self._close_when_idle()
        return self._closed

    def read_snapshot(self, work: Work[T]) -> Deferred[T]:
        return self._submit(Job(self._readers, work, ACROSS))

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        whole = isinstance(scope, Across) or not self._locks
        return self._submit(Job(self._singles if whole else self._together, work, scope))

    def _pools(self) -> tuple[ThreadPool, ...]:
        return self._readers, self._together, self._singles

    def _pool(self, name: str, count: int, run: Run) -> ThreadPool:
        return ThreadPool(name, count, self._engine, run, self._reactor, self._delivered)

    def _again(self) -> None:
        self._reactor.callFromThread(self._counters.add, Counted.RERUN_TRANSACTIONS)

    def _submit(self, job: Job) -> Deferred[Any]:
        if not self.running or self._under_way >= MAX_WAITING:
            return fail(Unavailable("the database is busy", retry_after_s=1))
        self._under_way += 1
        turn = _turn(job)
        if turn is not None and turn in self._turns:
            self._turns[turn].append(job)
        else:
            self._begin(job)
        return job.done

    def _begin(self, job: Job) -> None:
        if (turn := _turn(job)) is not None:
            self._turns.setdefault(turn, deque())
        job.pool.take(job)

    def _delivered(self, outcomes: list[tuple[Job, Any]]) -> None:
        for job, result in outcomes:
            if result is LATER:
                self._singles.take(job)
            else:
                self._ended(job, result)
        self._close_when_idle()

    def _ended(self, job: Job, result: Any) -> None:
        """Free the job's place in the queue; fire the job's Deferred unless it was cancelled."""
        self._under_way -= 1
        self._next(_turn(job))
        if isinstance(result, Failure):
            result = self._faults.refuse(result)
        if not job.done.called:  # if the caller has cancelled, the write is committed all the same
            job.done.callback(result)

    def _next(self, turn: str | None) -> None:
        if turn is None:
            return
        if waiting := self._turns[turn]:
            self._begin(waiting.popleft())
        else:
            del self._turns[turn]

    def _close_when_idle(self) -> None:
        if self._closed is not None and not self._under_way:
            Thread(target=self._close, name="database-close", daemon=True).start()

    def _close(self) -> None:
        try:
            for pool in self._pools():
                pool.stop()
            self._engine.dispose()
        finally:
            self._reactor.callFromThread(self._fire_closed)

    def _fire_closed(self) -> None:
        if self._closed is not None and not self._closed.called:
            self._closed.callback(None)


def _turn(job: Job) -> str | None:
    return job.scope.account_id if isinstance(job.scope, OneAccount) else job.scope.turn


def _prepare(connection: Any, record: Any) -> None:
    connection.execute(f"SET statement_timeout = {round(STATEMENT_S * 1000)}")
    # By default, PostgreSQL scans small tables without their index. With SERIALIZABLE, every
    # concurrent write to a scanned table is then a conflict. Statements are planned once, because
    # planning costs as much as execution. Scans that remain must not be compiled (JIT).
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("SET jit = off")
    connection.commit()
