"""The ledger on SQLite: one writer thread with group commit, and one reader thread.

While one COMMIT syncs, the next batch gathers: an idle server keeps its latency, a busy
one its throughput (docs/performance.md has the figures).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.db.checkpoints import MOST, Checkpoints
from svcserver.db.fast_execute import FastConnection, Plans
from svcserver.db.faults import Faults, is_full
from svcserver.db.ledger import ACROSS, Scope, Work
from svcserver.db.space import Reserve
from svcserver.kernel.buggify import buggify
from svcserver.kernel.events import after_events
from svcserver.kernel.refusals import Unavailable

log = Logger()

T = TypeVar("T")
Job = tuple[Deferred[Any], Work[Any]]
Outcome = tuple[Deferred[Any], Any]

ENOUGH = 128  # jobs of one transaction; more only make the first job wait longer
MAX_WAITING = 10_000
EMPTY_EVERY_S = 10.0  # between two attempts to truncate the write-ahead log


class Worker:
    """A thread that owns one connection and runs the queued jobs, one batch a transaction."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        reactor: Any,
        *,
        writes: bool,
        reserve: Reserve | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._connection, self._checkpoints = connection, checkpoints
        self._tx: Any = FastConnection(connection, Plans())
        self._raw: Any = connection.connection.dbapi_connection
        self._reactor = reactor
        self._faults = Faults(reactor.seconds)
        self._writes, self._reserve = writes, reserve
        self._empty_again_at = 0.0
        self._gathered: list[Job] = []
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._waiting = 0
        self._stopped: Deferred[None] | None = None
        self._name = name

    def start(self) -> None:
        """Begin to work, in a thread of its own."""
        Thread(target=self._run, name=self._name, daemon=True).start()

    def submit(self, work: Work[T]) -> Deferred[T]:
        """Queue ``work``; fails with Unavailable when ``MAX_WAITING`` jobs wait."""
        if self._stopped is not None or self._waiting >= MAX_WAITING:
            return fail(Unavailable("the database is busy", retry_after_s=1))
        done: Deferred[T] = Deferred()
        self._waiting += 1
        self._gathered.append((done, work))
        if len(self._gathered) == 1:
            after_events(self._reactor, self._hand_over)
        return done

    def stop(self) -> Deferred[None]:
        """Finish what was accepted, then close; fires when the thread has ended."""
        if self._stopped is None:
            self._stopped = Deferred()
            self._hand_over()
            self._queue.put(None)
        return self._stopped

    def _hand_over(self) -> None:
        """Wake the thread once for all the jobs of a reactor turn, not once for each."""
        if self._gathered:
            jobs, self._gathered = self._gathered, []
            self._queue.put(jobs)

    # -- below: the worker's thread ----------------------------------------

    def _run(self) -> None:
        running = True
        while running:
            batch, running = self._drain()
            if batch:
                outcomes = self._transact(batch)
                self._reactor.callFromThread(self._deliver, outcomes)
                if self._checkpoints is not None:
                    self._checkpoints.after_commit(len(batch), self._raw)
        self._connection.close()
        self._reactor.callFromThread(self._ended)

    def _drain(self) -> tuple[list[Job], bool]:
        """Wait for one job, then take whatever else is already waiting."""
        batch: list[Job] = []
        jobs = self._queue.get()
        while jobs is not None:
            batch += jobs
            if len(batch) >= ENOUGH:
                return batch, True
            try:
                jobs = self._queue.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _transact(self, batch: list[Job]) -> list[Outcome]:
        try:
            return self._commit(batch)
        except Exception as why:
            # the whole batch failed (disk full, I/O error, locked): no job is committed
            failure = Failure()
            self._give_up()
            if is_full(why) and self._emptied():
                try:
                    return self._commit(batch)
                except Exception:
                    failure = Failure()
                    self._give_up()
        return [(done, failure) for done, _ in batch]

    def _commit(self, batch: list[Job]) -> list[Outcome]:
        if self._reserve is not None:
            self._reserve.check()
        self._begin()
        outcomes = self._together(batch)
        if outcomes is None:
            self._begin()
            outcomes = [(done, self._alone(work)) for done, work in batch]
        self._raw.execute("COMMIT")
        return outcomes

    def _emptied(self) -> bool:
        """Whether a checkpoint has truncated the write-ahead log, which frees disk space.

        The log may have grown to a hundred megabytes.
        """
        now = self._reactor.seconds()
        if not self._writes or now < self._empty_again_at:
            return False
        self._empty_again_at = now + EMPTY_EVERY_S
        try:
            held_up = self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error:
            return False  # the failure that led here is the one to report
        if self._reserve is not None:
            self._reserve.look_again()
        return not held_up

    def _begin(self) -> None:
        """Begin a transaction, after a rollback of what the last one may have left."""
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")
        self._raw.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")

    def _give_up(self) -> None:
        """Roll back to release the lock; where that fails, the next batch tries it again."""
        try:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
        except sqlite3.Error:
            text = "a transaction could not be rolled back"
            # observers are not thread-safe
            self._reactor.callFromThread(log.failure, text, Failure())

    def _together(self, batch: list[Job]) -> list[Outcome] | None:
        """Run the jobs without savepoints; None when one failed after it had written.

        Most refusals come before the first write, and then there is nothing to undo; a
        savepoint for each job would add a third to the cost of a small one.
        """
        if buggify("sqlite: a batch is run with savepoints"):
            return None
        outcomes = []
        for done, work in batch:
            before = self._raw.total_changes
            try:
                result = work(self._tx)
            except Exception:
                if not self._raw.in_transaction:
                    raise  # SQLite already rolled everything back (disk full, I/O error)
                if self._raw.total_changes != before:
                    return None
                result = Failure()
            outcomes.append((done, result))
        return outcomes

    def _alone(self, work: Work[Any]) -> Any:
        """Run one job in its own savepoint."""
        self._raw.execute("SAVEPOINT job")
        try:
            result = work(self._tx)
        except Exception:
            result = Failure()
            if not self._raw.in_transaction:
                raise
            self._raw.execute("ROLLBACK TO job")
        self._raw.execute("RELEASE job")
        return result

    # -- below: the reactor's thread ---------------------------------------

    def _deliver(self, outcomes: list[Outcome]) -> None:
        self._waiting -= len(outcomes)
        for done, result in outcomes:
            if isinstance(result, Failure):
                result = self._faults.refuse(result)
            if not done.called:  # a caller may have cancelled; its write stands
                done.callback(result)

    def _ended(self) -> None:
        if self._stopped is not None:
            self._stopped.callback(None)


class SqliteLedger(Service):
    """The default ledger: work of a moment shares one transaction, one commit and one fsync.

    ``reserve``: bytes that stay free on the disk; writes beyond them are refused as Unavailable.
    """

    def __init__(self, engine: Engine, reactor: Any, reserve: int = 0) -> None:
        self._engine = engine
        file = engine.url.database
        self._file = Path(file) if file and file != ":memory:" else None
        self._reserve = Reserve(self._file.parent, reserve, reactor.seconds) if self._file else None
        self._reactor = reactor
        self._writer: Worker | None = None
        self._reader: Worker | None = None
        self._checkpoints: Checkpoints | None = None

    def startService(self) -> None:
        """Open the connections now, so that a failure ends the start."""
        Service.startService(self)
        writing = self._connect()
        if self._file is not None:
            self._checkpoints = Checkpoints(self._connect(), self._file, self._reactor)
            writing.exec_driver_sql(f"PRAGMA wal_autocheckpoint={MOST}")
            self._checkpoints.start()
        self._writer = Worker(
            "database-writer",
            writing,
            self._reactor,
            writes=True,
            reserve=self._reserve,
            checkpoints=self._checkpoints,
        )
        self._reader = Worker("database-reader", self._connect(), self._reactor, writes=False)
        self._writer.start()
        self._reader.start()

    def stopService(self) -> Deferred[Any]:
        """Finish what was accepted, then close."""
        Service.stopService(self)
        workers = [worker for worker in (self._writer, self._reader) if worker is not None]
        stopped = gatherResults([worker.stop() for worker in workers])
        checkpoints = self._checkpoints
        return stopped if checkpoints is None else stopped.addBoth(lambda _: checkpoints.stop())

    def read(self, work: Work[T]) -> Deferred[T]:
        return self._reader.submit(work) if self._reader is not None else _closed()

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        """See ``Ledger.write``; one writer runs all, so ``scope`` changes nothing."""
        return self._writer.submit(work) if self._writer is not None else _closed()

    def _connect(self) -> Connection:
        # AUTOCOMMIT: the worker issues BEGIN and COMMIT itself, SQLAlchemy must not
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def _closed() -> Deferred[Any]:
    return fail(Unavailable("the database is not open"))
