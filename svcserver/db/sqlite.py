"""The ledger on SQLite: one writer thread with group commit, and one reader thread.

While a COMMIT writes to disk, new jobs wait; then they are all committed together. So an idle
server commits a job immediately, and on a busy server many jobs share a commit (docs/performance.md
has the figures).
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

from attrs import define, field
from sqlalchemy import Connection, Engine
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail, gatherResults
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.db.fast_execute import FastConnection, Plans
from svcserver.db.faults import DatabaseFaults, is_full
from svcserver.db.ledger import ACROSS, Scope, Work
from svcserver.db.space import Reserve
from svcserver.kernel.buggify import buggify
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.throttle import Throttle

log = Logger()

# Checkpoints: a separate thread copies the write-ahead log into the database file in small pieces.
# SQLite by itself would copy 64 MB within one COMMIT: with 50 players, each save at that moment
# would wait 0.2 s. Once in 4,000 pages, the writer copies the last piece, because SQLite overwrites
# the log from its beginning only when all its pages are copied. Durability does not depend on
# checkpoints: every COMMIT syncs the log.
PIECE = 512  # pages of 16 KiB per piece; a larger piece delays concurrent commits
END = 4_000  # pages in the log at which the writer copies the rest
MOST = 8_000  # pages in the log at which SQLite itself copies all of them within a COMMIT
MOVE = "PRAGMA wal_checkpoint(PASSIVE)"  # does not wait; returns busy, pages, pages moved
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


@define
class CheckpointSchedule:
    """The schedule of checkpoints: when a part is due, and when the log can be overwritten.

    A checkpoint copies the write-ahead log into the database file, in parts. A part is due when the
    log has grown by about ``piece`` pages. The growth is estimated as jobs times pages per job;
    each part measures the pages per job anew.

    The writer's thread calls ``committed`` and ``ended``, and the checkpoint thread calls the other
    methods. Both threads set ``can_end``; every other field is set by only one thread.
    """

    piece: int = PIECE
    end: int = END
    can_end: bool = field(default=False, init=False)
    _committed: int = field(default=0, init=False)  # jobs in total
    _moved: int = field(default=0, init=False)  # jobs when the last piece began
    _jobs: int = field(default=1, init=False)  # jobs of the current piece
    _pages: int = field(default=0, init=False)  # pages in the log when the piece began
    _pages_a_job: float = field(default=4.0, init=False)

    def committed(self, jobs: int) -> bool:
        """Count committed jobs; return whether the next part of the checkpoint is due."""
        self._committed += jobs
        return (self._committed - self._moved) * self._pages_a_job >= self.piece

    def begin(self) -> None:
        """Record that the next part of the checkpoint begins, and reset the count of jobs."""
        jobs, self._moved = self._committed - self._moved, self._committed
        self._jobs = max(1, jobs)

    def moved(self, pages: int, done: int) -> None:
        """Record that the write-ahead log has ``pages`` pages, of which ``done`` are copied."""
        grown = pages - self._pages if pages >= self._pages else pages  # else a new log
        self._pages_a_job = max(1.0, grown / self._jobs)
        self._pages = pages
        # if pages are left, a long read still needs them
        self.can_end = pages >= self.end and done == pages

    def ended(self) -> None:
        """Record that the writer has tried to copy the rest of the log into the database file."""
        self.can_end = False


class Checkpoints:
    """The thread that copies the write-ahead log in parts, on its own connection."""

    def __init__(self, connection: Connection, file: Path, reactor: Any) -> None:
        self._connection, self._reactor = connection, reactor
        self._raw: Any = connection.connection.dbapi_connection
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint=0")
        # On POSIX, closing a file drops every lock that the process has on the file. So this
        # file stays open until the ledger's connections are closed.
        self._file = os.open(file, os.O_RDWR)
        self._schedule = CheckpointSchedule()
        self._faults = Throttle()
        self._due, self._stopping = Event(), False
        self._stopped: Deferred[None] = Deferred()
        self._thread = Thread(target=self._run, name="database-checkpoints", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Deferred[None]:
        """Stop the checkpoint thread; call this after the writer thread has ended."""
        self._stopping = True
        self._due.set()
        return self._stopped

    def after_commit(self, jobs: int, writer: Any) -> None:
        """Start a part of the checkpoint if a part is due.

        The writer's thread calls this method after each batch. If the log is long and almost
        completely copied, this method copies the rest. SQLite then overwrites the log from its
        beginning.
        """
        if self._schedule.committed(jobs):
            self._due.set()
        if self._schedule.can_end:
            self._schedule.ended()
            self._move(writer)

    # -- below: the thread --------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            self._due.wait()
            self._due.clear()
            if not self._stopping:
                self._piece()
        self._connection.close()
        os.close(self._file)
        self._reactor.callFromThread(self._stopped.callback, None)

    def _piece(self) -> None:
        self._schedule.begin()
        progress = self._move(self._raw)
        if progress is None:
            return
        try:
            # SQLite syncs the file only if nothing was committed meanwhile. With this sync, the
            # writer need not wait for a sync when it restarts the log.
            _sync(self._file)
        except OSError as why:
            self._failed(why)
            return
        self._schedule.moved(*progress)

    def _move(self, connection: Any) -> tuple[int, int] | None:
        """Copy pages from the log; return how many pages the log has, and how many are copied.

        Returns None if the database is busy or the copying fails.
        """
        try:
            busy, pages, done = connection.execute(MOVE).fetchone()
        except sqlite3.Error as why:
            self._failed(why)
            return None
        return None if busy else (pages, done)

    def _failed(self, why: Exception) -> None:
        self._reactor.callFromThread(self._warn, str(why))

    def _warn(self, why: str) -> None:
        if self._faults.due("", self._reactor.seconds()):
            log.warn(
                "SQLite's write-ahead log cannot be copied into the database file: {why}", why=why
            )


T = TypeVar("T")
Job = tuple[Deferred[Any], Work[Any]]
Outcome = tuple[Deferred[Any], Any]

ENOUGH = 128  # jobs of one transaction; more only make the first job wait longer
MAX_WAITING = 10_000
EMPTY_EVERY_S = 10.0  # between two attempts to truncate the write-ahead log


class Worker:
    """A thread that owns one connection and runs the queued jobs, one transaction per batch."""

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
        self._faults = DatabaseFaults(reactor.seconds)
        self._writes, self._reserve = writes, reserve
        self._empty_again_at = 0.0
        self._gathered: list[Job] = []
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._waiting = 0
        self._stopped: Deferred[None] | None = None
        self._name = name

    def start(self) -> None:
        Thread(target=self._run, name=self._name, daemon=True).start()

    def submit(self, work: Work[T]) -> Deferred[T]:
        """Queue ``work``; fails with Unavailable if ``MAX_WAITING`` jobs are already waiting."""
        if self._stopped is not None or self._waiting >= MAX_WAITING:
            return fail(Unavailable("the database is busy", retry_after_s=1))
        done: Deferred[T] = Deferred()
        self._waiting += 1
        self._gathered.append((done, work))
        if len(self._gathered) == 1:
            self._reactor.callLater(0, self._hand_over)
        return done

    def stop(self) -> Deferred[None]:
        """Finish the accepted work and close; the Deferred fires when the thread has ended."""
        if self._stopped is None:
            self._stopped = Deferred()
            self._hand_over()
            self._queue.put(None)
        return self._stopped

    def _hand_over(self) -> None:
        """Pass all jobs of a reactor iteration to the thread together, to wake it only once."""
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
        """Wait for the first job, then also take all other jobs that are waiting."""
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
        """Truncate the write-ahead log to free disk space; return whether that succeeded."""
        now = self._reactor.seconds()
        if not self._writes or now < self._empty_again_at:
            return False
        self._empty_again_at = now + EMPTY_EVERY_S
        try:
            held_up = self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error:
            return False  # report the original failure instead
        if self._reserve is not None:
            self._reserve.look_again()
        return not held_up

    def _begin(self) -> None:
        """Begin a transaction; first roll back an earlier transaction that is still open."""
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")
        self._raw.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")

    def _give_up(self) -> None:
        """Roll back the transaction if it is still open; if this fails, log the error."""
        try:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
        except sqlite3.Error:
            text = "a transaction could not be rolled back"
            # log observers are not thread-safe
            self._reactor.callFromThread(log.failure, text, Failure())

    def _together(self, batch: list[Job]) -> list[Outcome] | None:
        """Run the jobs without savepoints; return None if a job failed after it had written.

        Most jobs that fail have not written anything. A savepoint for each job would add a third to
        the cost of a small job.
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
            if not done.called:  # if the caller has cancelled, the write is committed all the same
                done.callback(result)

    def _ended(self) -> None:
        if self._stopped is not None:
            self._stopped.callback(None)


class SqliteLedger(Service):
    """The default ledger: concurrent jobs share one transaction, with one commit and one fsync.

    ``reserve`` is the number of bytes that must stay free on the disk; if fewer are free, writes
    fail with Unavailable.
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
        """Open the database connections and start their threads."""
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
        """Finish the accepted work, then close the database."""
        Service.stopService(self)
        workers = [worker for worker in (self._writer, self._reader) if worker is not None]
        stopped = gatherResults([worker.stop() for worker in workers])
        checkpoints = self._checkpoints
        return stopped if checkpoints is None else stopped.addBoth(lambda _: checkpoints.stop())

    def read_snapshot(self, work: Work[T]) -> Deferred[T]:
        return self._reader.submit(work) if self._reader is not None else _closed()

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        """See ``Ledger.write``; ``scope`` has no effect, because a single writer runs all work."""
        return self._writer.submit(work) if self._writer is not None else _closed()

    def _connect(self) -> Connection:
        # AUTOCOMMIT: the worker issues BEGIN and COMMIT itself, SQLAlchemy must not
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def _closed() -> Deferred[Any]:
    return fail(Unavailable("the database is not open"))
