"""The ledger of the simulation: the real database writer and reader, without their threads.

``db/sqlite.py`` defines how a batch runs, how it is rolled back, and how callers get the results.
This module decides when a batch runs, how long its commit takes, and which disk faults affect it.
The database outlives its process. It is in memory, and spills to a file when it grows large.
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from attrs import define, field
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from simulation.clock import World
from svcserver.db import migrations
from svcserver.db.fast_execute import FastConnection, Plans
from svcserver.db.ledger import ACROSS, Scope, Work
from svcserver.db.sqlite import ENOUGH, MAX_WAITING, Outcome, Worker
from svcserver.kernel.buggify import buggify
from svcserver.kernel.refusals import Unavailable

T = TypeVar("T")

COMMIT_S = 0.004  # a sync of an ordinary disk
READ_S = 0.0003
LOCKED_S = 2.0  # how long another program locks the database
CACHE_KB = 65_536  # kept in memory: enough for a session, not for a month
ROOM = 2**30  # pages; more than any simulated database has
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLAC")
_plans = Plans()  # compiled statements, shared by all worlds


class NoScratch(BaseException):
    """The error that is raised if this machine's temporary folder cannot hold the database.

    The host is not at fault. This is no Exception, because the host's services would handle an
    Exception as their own error.
    """


def scratch() -> str:
    """Return SQLite's folder for unnamed files (https://sqlite.org/tempfiles.html)."""
    named = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"))
    places = [place for place in (*named, "/var/tmp", "/usr/tmp", "/tmp") if place]  # noqa: S108
    usable = (
        place for place in places if Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK)
    )
    return next(usable, ".")


def judge(why: BaseException | None, *, filled: bool = False) -> None:
    """Raise NoScratch if the error comes from this machine, not from the simulated disk.

    ``filled`` is true if the simulated disk is full on purpose.
    """
    origin: Any = why.orig if isinstance(why, DBAPIError) else why
    name = getattr(origin, "sqlite_errorname", "") or ""
    full = name == "SQLITE_FULL" and not filled
    if full or name.startswith(("SQLITE_IOERR_", "SQLITE_CANTOPEN")):  # ours: SQLITE_IOERR only
        raise NoScratch(
            f"{scratch()} cannot hold the database of the simulation: {origin};"
            " make room there, or set TMPDIR to another folder"
        ) from why


@lru_cache(maxsize=1)
def _template() -> sqlite3.Connection:
    """Return an empty database of the newest revision, created once by the real migrations."""
    engine = _engine()
    migrations.upgrade(engine)
    with engine.connect() as connection:
        raw: sqlite3.Connection = _driver(connection)
        return raw


def _engine() -> Engine:
    """Return a new database; above ``CACHE_KB`` it uses an unnamed temporary file."""

    def opened() -> sqlite3.Connection:
        raw = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        raw.execute("PRAGMA journal_mode=MEMORY")
        raw.execute(f"PRAGMA cache_size=-{CACHE_KB}")
        return raw

    return create_engine("sqlite://", poolclass=StaticPool, creator=opened)


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


@define(eq=False)
class Disk:
    """A database, and the faults of its simulated disk."""

    world: World
    slow_s: float = 0.0  # additional duration of each commit
    fail_in: int = -1  # how many statements succeed before one fails
    stays_bad: bool = False  # whether that statement fails from then on, as on a bad sector
    only_writes: bool = False  # reads come from memory and do not fail
    bad_syncs: int = 0  # how many of the next commits fail, after their jobs have run
    on_commit: Callable[[], bool] | None = None  # called after a commit; True kills the process
    engine: Engine = field(factory=_engine, init=False)
    raw: Any = field(init=False)
    digest: Any = field(factory=hashlib.sha256, init=False)
    _bad: Any = field(default=None, init=False)  # the statement that fails each time
    _job_left: int = field(default=0, init=False)  # writes until one of the present job fails
    filled: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        with self.engine.connect() as connection:
            self.raw = _driver(connection)
        _template().backup(self.raw)
        self.raw.execute("PRAGMA foreign_keys=ON")

    def wrote(self, statement: str) -> None:
        """Add a writer's statement to the run's digest; equal seeds must give equal digests."""
        if statement[:6] in _WRITES:
            self.digest.update(statement.encode("utf-8", "surrogatepass"))

    def fill(self) -> None:
        """Stop the database from growing: SQLite then fails and rolls back as on a full disk."""
        pages = self.raw.execute("PRAGMA page_count").fetchone()[0]
        self.raw.execute(f"PRAGMA max_page_count={pages}")
        self.filled = True

    def make_room(self) -> None:
        """Allow the database to grow again."""
        self.raw.execute(f"PRAGMA max_page_count={ROOM}")
        self.filled = False

    @property
    def failing(self) -> bool:
        """Return whether statements fail now or will fail soon."""
        return self.fail_in >= 0 or self._bad is not None or self._job_left > 0

    def mend(self) -> None:
        """Let all statements succeed from now on."""
        self.fail_in, self.stays_bad, self.only_writes, self._bad = -1, False, False, None

    def failing_job(self, work: Work[T]) -> Work[T]:
        """Wrap a job so that its second or third write fails, also when the job is retried."""
        number = self.world.weather.choice((2, 2, 3))

        def failing(tx: Any) -> T:
            self._job_left = number
            try:
                return work(tx)
            finally:
                self._job_left = 0

        return failing

    def statement(self, which: Any) -> None:
        """Raise a disk error if this statement must fail."""
        writes = getattr(which, "is_dml", False)
        if writes and self._job_left > 0:
            self._job_left -= 1
            if not self._job_left:
                raise _io_error()
        if (self.fail_in < 0 and self._bad is None) or (self.only_writes and not writes):
            return
        self.fail_in = max(-1, self.fail_in - 1)
        if self._bad is None and self.fail_in < 0:
            self._bad = which
        if self._bad is which:
            if not self.stays_bad:
                self._bad = None
            raise _io_error()

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return committed rows, read directly, bypassing all code under test."""
        return list(self.each(query, *values))

    def each(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query one at a time, because a list could fill the memory."""
        return iter(self.raw.execute(query, values))

    def lines(self) -> Iterator[str]:
        """Yield the whole database as text lines."""
        return iter(self.raw.iterdump())


def _io_error() -> sqlite3.OperationalError:
    why = sqlite3.OperationalError("disk I/O error")
    why.sqlite_errorname = "SQLITE_IOERR"
    return why


class _Failing(FastConnection):
    """A connection to a database on a simulated disk, whose faults make statements fail."""

    def __init__(self, connection: Connection, disk: Disk) -> None:
        super().__init__(connection, _plans)
        self._disk = disk

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        """Run a statement unless the disk fails now."""
        if self._disk.failing:
            self._disk.statement(statement)
        return super().execute(statement, parameters)


class _BadSync:
    """A connection whose next commit fails, as if a sync to disk had failed."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, statement: str) -> Any:
        """Run a statement, or raise an error if the statement is a commit."""
        if statement == "COMMIT":
            raise _io_error()
        return self._raw.execute(statement)


class InlineWorker(Worker):
    """A database worker without a thread: batches run as timers of the simulated world."""

    def __init__(self, disk: Disk, connection: Connection, reactor: Any, *, writes: bool) -> None:
        super().__init__("simulated", connection, reactor, writes=writes)
        self._tx = _Failing(connection, disk)
        self._disk, self._process = disk, reactor
        self._busy = False

    def start(self) -> None:
        """Do nothing: there is no thread."""

    def stop(self) -> Deferred[None]:
        """Run the waiting jobs and accept no more."""
        self._stopped = succeed(None)
        self._hand_over()
        return self._stopped

    def _hand_over(self) -> None:
        """Do nothing: there is no thread to wake."""

    def submit(self, work: Work[T]) -> Deferred[T]:
        """Queue a job like ``Worker.submit``."""
        if self._stopped is not None or self._waiting >= MAX_WAITING:
            return fail(Unavailable("the database is busy", retry_after_s=1))
        if self._writes and buggify("ledger: a write in the middle of a job fails"):
            work = self._disk.failing_job(work)
        done: Deferred[T] = Deferred()
        self._waiting += 1
        self._gathered.append((done, work))
        self._begin_batch()
        return done

    def _begin_batch(self) -> None:
        if self._busy or not self._gathered:
            return
        self._busy = True
        takes = COMMIT_S + self._disk.slow_s if self._writes else READ_S
        if self._writes and buggify("ledger: a batch waits for a lock"):
            takes += LOCKED_S
        self._reactor.callLater(takes, self._work)

    def _work(self) -> None:
        batch, self._gathered = self._gathered[:ENOUGH], self._gathered[ENOUGH:]
        if self._writes:
            self._disk.raw.set_trace_callback(self._disk.wrote)
        raw = self._raw
        if self._writes and self._disk.bad_syncs:
            self._disk.bad_syncs -= 1
            self._raw = _BadSync(raw)
        outcomes: list[Outcome] = self._transact(batch)
        for _, result in outcomes:
            if isinstance(result, Failure):
                judge(result.value, filled=self._disk.filled)
        self._raw = raw
        self._busy = False
        if self._writes:
            self._disk.raw.set_trace_callback(None)
            if self._disk.on_commit is not None and self._disk.on_commit():
                self._process.die()  # committed, but not reported
                return
        self._deliver(outcomes)
        self._begin_batch()


@define(eq=False, slots=False)
class SimLedger(Service):
    """The ledger of one process on a disk that outlives it."""

    disk: Disk
    reactor: Any
    _writer: InlineWorker | None = field(default=None, init=False)
    _reader: InlineWorker | None = field(default=None, init=False)

    def startService(self) -> None:
        Service.startService(self)
        self._writer = InlineWorker(self.disk, self._connect(), self.reactor, writes=True)
        self._reader = InlineWorker(self.disk, self._connect(), self.reactor, writes=False)

    def _connect(self) -> Connection:
        return self.disk.engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def read_snapshot(self, work: Work[T]) -> Deferred[T]:
        return self._reader.submit(work) if self._reader is not None else _closed()

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        return self._writer.submit(work) if self._writer is not None else _closed()


def _closed() -> Deferred[Any]:
    return fail(Unavailable("the database is not open"))
