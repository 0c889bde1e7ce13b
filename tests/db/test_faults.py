"""The failures that are attributed to the database, and their messages."""

import sqlite3

from psycopg import errors
from sqlalchemy.exc import IntegrityError, OperationalError
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.faults import DatabaseFaults, cure_of
from svcserver.kernel.refusals import Unavailable


def sqlite_error(name: str) -> sqlite3.OperationalError:
    why = sqlite3.OperationalError("some words")
    why.sqlite_errorname = name
    return why


class CureTests(SynchronousTestCase):
    def test_the_trouble_of_a_disk_or_a_lock_has_a_cure(self) -> None:
        for name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_BUSY", "SQLITE_READONLY_DBMOVED"):
            self.assertIsNotNone(cure_of(sqlite_error(name)), name)
            self.assertIsNotNone(cure_of(OperationalError("", {}, sqlite_error(name))), name)

    def test_a_server_that_stops_is_short_or_is_gone_has_a_cure(self) -> None:
        for origin in (
            errors.AdminShutdown("x"),
            errors.CannotConnectNow("x"),
            errors.TooManyConnections("x"),
            errors.DiskFull("x"),
            errors.SerializationFailure("x"),
            errors.ReadOnlySqlTransaction("x"),
            errors.QueryCanceled("x"),
            errors.ConnectionTimeout("x"),
            errors.OperationalError("the connection is closed"),
        ):
            self.assertIsNotNone(cure_of(OperationalError("", {}, origin)), origin)

    def test_an_error_in_our_own_statements_has_no_cure(self) -> None:
        for why in (
            sqlite_error("SQLITE_ERROR"),
            OperationalError("", {}, sqlite_error("SQLITE_ERROR")),
            IntegrityError("", {}, errors.UniqueViolation("x")),
            OperationalError("", {}, errors.UndefinedTable("x")),
            ValueError("x"),
        ):
            self.assertIsNone(cure_of(why), why)


class RefusalTests(SynchronousTestCase):
    def test_a_full_disk_is_a_503_and_logged_once_a_minute(self) -> None:
        now = [0.0]
        faults = DatabaseFaults(lambda: now[0])
        with capturedLogs() as events:
            for _ in range(10):
                refused = faults.refuse(Failure(sqlite_error("SQLITE_FULL")))
                self.assertIsInstance(refused.value, Unavailable)
            now[0] = 60.0
            faults.refuse(Failure(sqlite_error("SQLITE_FULL")))
        self.assertEqual(len(events), 2)

    def test_an_error_outside_the_database_is_returned_unchanged(self) -> None:
        failure = Failure(ValueError("x"))
        self.assertIs(DatabaseFaults(lambda: 0.0).refuse(failure), failure)
