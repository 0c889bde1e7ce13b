"""Ledgers on both database engines with one table, and simulated disk faults."""

import sqlite3
import tempfile
from typing import Any

from sqlalchemy import Column, Connection, Engine, Integer, MetaData, String, Table, insert, select
from sqlalchemy.exc import IntegrityError, OperationalError
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.engine import database_url, make_engine
from svcserver.db.factory import ledger_for
from svcserver.kernel.counters import Counters
from tests.support.real_ledger import QueueReactor

THINGS = Table(
    "things",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("name", String(20), unique=True),
)


def add(number: int, name: str = "") -> Any:
    return lambda tx: tx.execute(insert(THINGS), {"id": number, "name": name or str(number)})


def names(tx: Connection) -> list[str]:
    return list(tx.execute(select(THINGS.c.name).order_by(THINGS.c.id)).scalars())


class Stubborn:
    """A SQLite connection on a disk that makes two rollbacks fail."""

    def __init__(self, raw: Any) -> None:
        self.raw, self.left = raw, 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute(self, sql: str) -> Any:
        if sql == "ROLLBACK" and self.left:
            self.left -= 1
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR"
            raise error
        return self.raw.execute(sql)


class FullDisk:
    """A SQLite connection on a full disk; emptying the log frees space."""

    def __init__(self, raw: Any, *, helps: bool = True) -> None:
        self.raw, self.helps, self.full, self.emptied = raw, helps, True, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute(self, sql: str) -> Any:
        if sql == "PRAGMA wal_checkpoint(TRUNCATE)":
            self.emptied += 1
            self.full = not self.helps
        if sql == "COMMIT" and self.full:
            self.raw.execute("ROLLBACK")
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error
        return self.raw.execute(sql)


class LedgerCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.engine = self.make()
        THINGS.metadata.create_all(self.engine)
        self.reactor = QueueReactor()
        self.counters = Counters()
        self.ledger = ledger_for(self.engine, self.reactor, counters=self.counters)
        self.ledger.startService()
        self.addCleanup(self.stop)

    def make(self) -> Engine:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        engine = make_engine(database_url(f"sqlite:///{folder.name}/svc.db"))
        self.addCleanup(engine.dispose)
        return engine

    def stop(self) -> None:
        stopped = self.ledger.stopService()
        if isinstance(stopped, Deferred):
            self.reactor.wait_for(stopped)

    def wait(self, pending: Deferred[Any]) -> Any:
        self.reactor.wait_for(pending)
        return self.successResultOf(pending)


class DriverError(Exception):
    """A database driver's error."""

    sqlstate = ""


def connection_error(state: str) -> OperationalError:
    error = DriverError(state)
    error.sqlstate = state
    return OperationalError("", {}, error)


def duplicate() -> IntegrityError:
    return IntegrityError("", {}, DriverError())
