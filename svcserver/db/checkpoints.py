"""Moves SQLite's write-ahead log into the database file in small pieces, beside the writer.

SQLite's own way is to move 64 MB within one COMMIT: at 50 players each save that meets it
waits 0.2 s. Here a thread of its own moves and syncs what was committed, some megabytes at a
time, while the writer goes on. Only the end must be the writer's, since the log begins anew
only when nothing is left in it: a piece like the others, once in 4,000 pages.

None of this decides what is durable: a COMMIT syncs the log, and what is in the log counts.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from attrs import define, field
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.kernel.throttle import Throttle

log = Logger()

PIECE = 2_048  # pages of 16 KiB that are moved at once; half of it costs an inventory act 2 us more
END = 4_000  # pages in the log when the writer ends it
MOST = 8_000  # pages; then SQLite moves all of it within a COMMIT
MOVE = "PRAGMA wal_checkpoint(PASSIVE)"  # waits for nobody; gives busy, pages, pages moved
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


@define
class Schedule:
    """When the next piece is due, and when the log can be ended.

    How many pages a commit adds is known only after a piece was moved, so the last piece tells
    how many jobs make the next. The writer calls ``committed`` and ``ended``, the thread the
    rest; each sets values of its own alone.
    """

    piece: int = PIECE
    end: int = END
    can_end: bool = field(default=False, init=False)
    _committed: int = field(default=0, init=False)  # jobs, ever
    _moved: int = field(default=0, init=False)  # jobs when the last piece began
    _jobs: int = field(default=1, init=False)  # of the piece that is being moved
    _pages: int = field(default=0, init=False)  # in the log when it began
    _pages_a_job: float = field(default=4.0, init=False)

    def committed(self, jobs: int) -> bool:
        """Count jobs that were committed; whether a piece is due."""
        self._committed += jobs
        return (self._committed - self._moved) * self._pages_a_job >= self.piece

    def begin(self) -> None:
        """A piece of the log begins to be moved into the database: count anew."""
        jobs, self._moved = self._committed - self._moved, self._committed
        self._jobs = max(1, jobs)

    def moved(self, pages: int, done: int) -> None:
        """So many of the log's pages have been moved."""
        grown = pages - self._pages if pages >= self._pages else pages  # fewer: it began anew
        self._pages_a_job = max(1.0, grown / self._jobs)
        self._pages = pages
        self.can_end = pages >= self.end and done == pages  # else a long read holds it up

    def ended(self) -> None:
        """The writer has moved what was left, or could not; the next piece will tell."""
        self.can_end = False


class Checkpoints:
    """The thread that moves pieces, with a connection of its own."""

    def __init__(self, connection: Connection, file: Path, reactor: Any) -> None:
        self._connection, self._reactor = connection, reactor
        self._raw: Any = connection.connection.dbapi_connection
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint=0")
        # Closing it drops every lock that this process has on the file (POSIX), so it stays open
        # until the ledger's connections are closed.
        self._file = os.open(file, os.O_RDWR)
        self._schedule = Schedule()
        self._faults = Throttle()
        self._due, self._stopping = Event(), False
        self._stopped: Deferred[None] = Deferred()
        self._thread = Thread(target=self._run, name="database-checkpoints", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Deferred[None]:
        """End after the piece that is being moved; to be called when the writer has ended."""
        self._stopping = True
        self._due.set()
        return self._stopped

    def after_commit(self, jobs: int, writer: Any) -> None:
        """Called by the writer's thread, with its connection and when its jobs are answered."""
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
        found = self._move(self._raw)
        if found is None:
            return
        try:
            # SQLite syncs the file only where nothing was committed meanwhile; what is synced
            # here the writer need not wait for when it ends the log
            _sync(self._file)
        except OSError as why:
            self._failed(why)
            return
        self._schedule.moved(*found)

    def _move(self, connection: Any) -> tuple[int, int] | None:
        """Pages in the log, and how many are moved; None when that failed."""
        try:
            busy, pages, done = connection.execute(MOVE).fetchone()
        except sqlite3.Error as why:
            self._failed(why)
            return None
        return None if busy else (pages, done)

    def _failed(self, why: Exception) -> None:
        self._reactor.callFromThread(self._tell, str(why))

    def _tell(self, why: str) -> None:
        if self._faults.due("", self._reactor.seconds()):
            log.warn("the log of SQLite could not be moved into the database: {why}", why=why)
