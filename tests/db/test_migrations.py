"""Migrations run at startup, can be repeated, and never drop or change data. Spec: 1 §9.4."""

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, insert, inspect, select, table, text
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame.service  # noqa: F401 - declares every table
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, database_url, make_engine
from svcserver.db.migrations import revisions
from svcserver.db.tables import METADATA
from svcserver.db.transaction import transaction
from tests.support.filling import fill, rows, shape
from tests.support.postgres import fresh_database
from tests.support.proves import proves


class Undone(Exception):
    """An exception that rolls a transaction back."""


class Migrations:
    """The tests that run on both engines."""

    make: Callable[[Any], Engine]
    patch: Callable[[object, str, object], object]
    assertRaises: Callable[..., Any]

    def alone(self) -> None:
        """Pretend that no other threads run, as when a service starts."""
        self.patch(migrations, "active_count", lambda: 1)

    def engine(self) -> Engine:
        engine = self.make()
        self.addCleanup(engine.dispose)  # type: ignore[attr-defined]
        return engine

    def test_migrations_create_the_tables_that_the_stores_declare(self) -> None:
        engine = self.engine()
        migrations.upgrade(engine)
        migrations.upgrade(engine)
        with engine.connect() as tx:
            context = MigrationContext.configure(tx, opts={"compare_type": False})
            differences = compare_metadata(context, METADATA)
            self.assertEqual(
                differences, [], "db/migrations/versions must make what a store.py declares"
            )

    def test_a_child_brings_a_service_s_database_up_to_date(self) -> None:
        engine, results = self.engine(), []
        upgrade = migrations.upgrade

        def record_present(engine: Engine) -> bool:
            with engine.connect() as tx:
                results.append(revisions.present(tx))
            return upgrade(engine)

        self.alone()
        self.patch(migrations, "upgrade", record_present)
        self.assertTrue(migrations.upgrade_apart(engine))
        self.assertEqual(results, [revisions.known()[-1]])  # the child told its own process
        self.assertFalse(migrations.upgrade_apart(engine))
        with engine.connect() as tx:
            self.assertEqual(revisions.present(tx), revisions.known()[-1])

    def test_an_upgrade_in_a_child_works_while_sigchld_is_ignored(self) -> None:
        engine = self.engine()
        self.alone()
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            self.assertTrue(migrations.upgrade_apart(engine))
        finally:
            signal.signal(signal.SIGCHLD, before)

    def test_no_child_is_made_beside_other_threads(self) -> None:
        engine, done = self.engine(), Event()
        made: list[Engine] = []
        self.patch(migrations, "_in_a_child", made.append)
        thread = Thread(target=done.wait)
        thread.start()
        try:
            self.assertTrue(migrations.upgrade_apart(engine))
        finally:
            done.set()
            thread.join()
        self.assertEqual(made, [])

    def test_the_service_upgrades_by_itself_if_the_child_is_killed(self) -> None:
        engine = self.engine()
        upgrade, here = migrations.upgrade, os.getpid()

        def killed(engine: Engine) -> bool:
            if os.getpid() != here:
                with transaction(engine) as tx:
                    tx.execute(text("CREATE TABLE half (id INTEGER)"))
                    os.kill(os.getpid(), signal.SIGKILL)
            return upgrade(engine)

        self.alone()
        self.patch(migrations, "upgrade", killed)
        self.assertTrue(migrations.upgrade_apart(engine))
        with engine.connect() as tx:
            self.assertEqual(revisions.present(tx), revisions.known()[-1])
            self.assertFalse(inspect(tx).has_table("half"))

    def of_newer(self, *changes: str) -> Engine:
        """Return a database that a newer version has upgraded."""
        engine = self.engine()
        migrations.upgrade(engine)
        with engine.begin() as tx:
            for statement in ("UPDATE alembic_version SET version_num = '9999'", *changes):
                tx.exec_driver_sql(statement)
        return engine

    def test_an_older_version_runs_if_the_newer_version_only_added(self) -> None:
        engine = self.of_newer(
            "CREATE TABLE of_tomorrow (id INTEGER PRIMARY KEY)",
            "ALTER TABLE accounts ADD COLUMN colour VARCHAR(9)",
            "ALTER TABLE accounts ADD COLUMN size INTEGER DEFAULT 1 NOT NULL",
        )
        with capturedLogs() as events:
            migrations.upgrade(engine)
        [line] = [
            event["log_format"]
            for event in events
            if "can be used, although" in event["log_format"]
        ]
        with engine.connect() as tx:
            self.assertEqual(revisions.newer(tx), "9999", line)

    def test_every_earlier_version_runs_on_an_upgraded_database(self) -> None:
        """An earlier version's worker keeps running while another worker upgrades the database."""
        engine, known = self.engine(), revisions.known()
        migrations.upgrade(engine)
        for number in range(1, len(known)):
            self.patch(revisions, "known", lambda number=number: known[:number])
            with capturedLogs() as events:
                migrations.upgrade(engine)
            self.assertTrue(
                [event for event in events if "can be used, although" in event["log_format"]]
            )
            with engine.connect() as tx:
                self.assertEqual(revisions.newer(tx), known[-1])

    def test_an_incompatible_newer_database_is_refused_with_the_cause(self) -> None:
        for change, what in (
            ("ALTER TABLE accounts RENAME COLUMN notes TO coins", "no column notes"),
            ("ALTER TABLE item_log RENAME TO item_history", "no table item_log"),
            ("ALTER TABLE characters RENAME COLUMN name TO title", "no column name"),
        ):
            try:
                migrations.upgrade(self.of_newer(change))
            except BadDatabase as why:
                message = str(why)
            self.assertIn("9999 is newer than this version", message)
            self.assertIn(what, message)
            self.assertIn("install the newer version of svcserver again", message)

    def test_the_names_of_the_scripts_are_their_revisions(self) -> None:
        script = ScriptDirectory(str(Path(migrations.__file__).parent))
        steps = [step.revision for step in script.walk_revisions()][::-1]
        self.assertEqual(revisions.known(), steps)

    @proves("migrations only add")
    def test_a_filled_database_loses_nothing_from_any_step_on(self) -> None:
        script = ScriptDirectory(str(Path(migrations.__file__).parent))
        steps = [step.revision for step in script.walk_revisions()][::-1]
        newest, engine = self.engine(), self.engine()
        migrations.upgrade(newest)
        before: dict[str, list[tuple[Any, ...]]] = {}
        for number, step in enumerate(steps, 1):
            migrations.upgrade(engine, step)
            after = {
                # new columns are the last ones in a row
                name: [row[: len(before[name][0])] for row in rows]
                for name, rows in contents(engine, list(before)).items()
            }
            self.assertEqual(after, before, step)
            tables = shape(engine)
            with self.assertRaises(Undone), transaction(newest) as tx:
                # a worker of that version keeps running and writes rows
                for target, row in rows(tables):
                    tx.execute(insert(target), row)
                raise Undone
            before = fill(engine, tables, number)


class Folders:
    """Temporary folders that are deleted after the test."""

    def folder(self) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)  # type: ignore[attr-defined]
        return folder.name


class SqliteMigrationTests(Migrations, Folders, SynchronousTestCase):
    def make(self) -> Engine:
        return make_engine(database_url(f"sqlite:///{self.folder()}/svc.db"))


@pytest.mark.live
class PostgresMigrationTests(Migrations, SynchronousTestCase):
    def make(self) -> Engine:
        return make_engine(database_url(fresh_database()))


class UnusableDatabaseTests(Folders, SynchronousTestCase):
    def test_a_file_that_is_no_database_is_named_and_left_untouched(self) -> None:
        path = Path(self.folder(), "svc.db")
        for garbage in (b"not a database at all " * 400, b"SQLite format 3\x00" + b"\xff" * 9000):
            path.write_bytes(garbage)
            engine = make_engine(database_url(f"sqlite:///{path}"))
            with self.assertRaises(BadDatabase) as caught:
                migrations.upgrade(engine)
            self.assertIn("database", str(caught.exception))
            self.assertEqual(path.read_bytes(), garbage)
            engine.dispose()

    def test_a_readable_file_becomes_private_with_one_log_line(self) -> None:
        path = Path(self.folder(), "svc.db")
        files = [path, path.with_name("svc.db-wal"), path.with_name("svc.db-shm")]
        engine = make_engine(database_url(f"sqlite:///{path}"))
        self.addCleanup(engine.dispose)
        migrations.upgrade(engine)
        with engine.connect() as held:
            held.exec_driver_sql("SELECT count(*) FROM accounts")  # the other two connections exist
            for item in files:
                item.chmod(0o644)
            with capturedLogs() as events:
                migrations.upgrade(engine)
                migrations.upgrade(engine)
            self.assertEqual([item.stat().st_mode & 0o777 for item in files], [0o600] * 3)
        files_named = [item["file"] for item in events if "was readable" in item["log_format"]]
        self.assertEqual(files_named, [str(item) for item in files])

    def test_a_folder_that_does_not_exist_is_named(self) -> None:
        with self.assertRaises(BadDatabase):
            migrations.upgrade(make_engine(database_url("sqlite:////nowhere/at/all/svc.db")))


def contents(engine: Engine, tables: list[str]) -> dict[str, list[tuple[object, ...]]]:
    """Return the sorted rows of each table; the columns are in the order of their creation."""
    with engine.connect() as tx:
        rows = {name: tx.execute(select(text("*")).select_from(table(name))) for name in tables}
        return {name: sorted(tuple(row) for row in rows) for name, rows in rows.items()}


__all__ = ["inspect"]
