"""The database itself prevents changes to audit rows, on both engines."""

import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text
from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame.service  # noqa: F401 - declares every table
from svcserver.db import migrations
from svcserver.db.engine import SQLAlchemyError, database_url, make_engine
from svcserver.metagame.accounts.audit import AuditEntry, AuditQuery, add_row, rows
from tests.support.postgres import fresh_database
from tests.support.proves import proves


class AppendOnly:
    """The tests that run on both engines."""

    make: Callable[[Any], Engine]
    assertEqual: Any
    assertRaises: Any
    addCleanup: Any

    @proves("the audit log is append only")
    def test_a_row_is_neither_changed_nor_deleted(self) -> None:
        engine = self.make()
        self.addCleanup(engine.dispose)
        migrations.upgrade(engine)
        with engine.begin() as tx:
            add_row(tx, AuditEntry("Mona", "ban", "Ann_1", "cheats"), 1_790_000_000.0)
        for change in (
            "UPDATE audit_log SET actor = 'somebody else'",
            "UPDATE audit_log SET refused = 'no' WHERE id = 1",
            "DELETE FROM audit_log",
            *self.more,
        ):
            with self.assertRaises(SQLAlchemyError), engine.begin() as tx:
                tx.execute(text(change))
        with engine.begin() as tx:
            [row] = rows(tx, AuditQuery())
        self.assertEqual((row["actor"], row["at"]), ("Mona", 1_790_000_000_000))

    more: tuple[str, ...] = ()


class SqliteTests(AppendOnly, SynchronousTestCase):
    def make(self) -> Engine:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return make_engine(database_url(f"sqlite:///{folder.name}/svc.db"))


@pytest.mark.live
class PostgresTests(AppendOnly, SynchronousTestCase):
    more = ("TRUNCATE audit_log",)

    def make(self) -> Engine:
        return make_engine(database_url(fresh_database()))
