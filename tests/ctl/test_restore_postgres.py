"""A restore into a host's PostgreSQL from old, damaged and current dumps."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import Connection, NullPool, create_engine, inspect, text
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import postgres_restore, stopping
from svcserver.ctl.output import Failed, fail
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, database_url, make_engine
from svcserver.db.migrations import revisions
from svcserver.db.restoring import refuse_restored, restoring
from tests.ctl.command import Ran, nowhere, svcctl
from tests.ctl.hosts import change
from tests.ctl.test_accounts import HostCase
from tests.support.postgres import own_database
from tests.support.processes import eventually
from tests.support.proves import proves

# what a later migration may add, linked to a table of today
LATER = (
    "CREATE TYPE newer_kind AS ENUM ('one', 'other')",
    "CREATE TABLE newer (id serial PRIMARY KEY, account_id varchar(64) REFERENCES accounts,"
    " kind newer_kind, number bigint GENERATED ALWAYS AS IDENTITY)",
    "CREATE VIEW newer_seen AS SELECT account_id FROM newer",
    "CREATE FUNCTION newer_kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER kept BEFORE UPDATE ON newer EXECUTE FUNCTION newer_kept()",
)


# runs in place of psql: after the request to end, somebody presses Ctrl-C again
HASTY = """
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: os.kill(os.getppid(), signal.{name}))
print("begun", flush=True)
while True:
    time.sleep(60)
"""


@pytest.mark.live
class StopTests(SynchronousTestCase):
    def test_second_stop_reports_the_outcome_and_leaves_no_process(self) -> None:
        for name in ("SIGINT", "SIGTERM"):
            words = [sys.executable, "-c", HASTY.format(name=name)]
            with (
                stopping.stoppable(),
                tempfile.TemporaryFile() as errors,
                self.assertRaisesRegex(
                    Failed, "^the restore was stopped; the database was not changed$"
                ),
                postgres_restore._psql(words, dict(os.environ), errors) as psql,
            ):
                assert psql.stdout is not None
                self.assertEqual(psql.stdout.readline(), b"begun\n")
                fail("the restore was stopped; the database was not changed")
            self.assertEqual(psql.returncode, -signal.SIGKILL, name)


@pytest.mark.live
class RestoreTests(HostCase):
    def setUp(self) -> None:
        super().setUp()
        self.use_fresh()
        self.copies = nowhere(self)
        self.copies.mkdir()
        self.copy = self.copies / "copy.dump"

    def use_fresh(self) -> None:
        """Give the host a new database whose owner role is no superuser."""
        self.url, self.admin = own_database()
        change(self.folder, "metagame", "DATABASE_URL", self.url)

    def at(self, revision: str) -> None:
        """Migrate the database to a revision."""
        engine = make_engine(database_url(self.url))
        migrations.upgrade(engine, revision)
        engine.dispose()

    def carry_out(self, *statements: str, **values: str) -> None:
        with create_engine(database_url(self.url), poolclass=NullPool).begin() as tx:
            for statement in statements:
                tx.execute(text(statement), values)

    def add(self, name: str) -> None:
        self.carry_out(
            "INSERT INTO accounts (id, username, username_folded, created_at) "
            "VALUES (:name, :name, :name, 1)",
            name=name,
        )

    def names(self) -> set[str]:
        with create_engine(database_url(self.url), poolclass=NullPool).connect() as tx:
            return set(tx.execute(text("SELECT username FROM accounts")).scalars())

    @contextmanager
    def administered(self) -> Iterator[Connection]:
        """Yield a superuser's connection to the database in autocommit mode."""
        engine = create_engine(database_url(self.admin), poolclass=NullPool)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
            yield tx

    def last_row(self) -> dict[str, object]:
        ran = self.ctl("audit", "--json", "--count", "1")
        self.assertEqual(ran.status, 0, ran.err)
        return dict(ran.data)

    def tables(self) -> set[str]:
        with create_engine(database_url(self.url), poolclass=NullPool).connect() as tx:
            return set(inspect(tx).get_table_names())

    def done(self, *words: object) -> Ran:
        ran = self.ctl(*words, "--json")
        self.assertEqual(ran.status, 0, ran.err)
        return ran

    def filled(self) -> Path:
        """Dump a database that has one account and all migrations, then add a second account."""
        self.at("head")
        self.add("alpha")
        self.done("db", "backup", self.copy)
        self.add("later")
        return self.copy

    def list_dumps(self) -> list[Path]:
        return sorted(self.folder.glob("before-restore-*"))

    @proves("svcctl db")
    def test_backup_from_before_a_migration_is_restored_and_upgraded(self) -> None:
        self.at(revisions.known()[-2])
        self.add("alpha")
        self.done("db", "backup", self.copy)
        before = self.tables()
        self.at("head")
        newest = self.tables()
        self.add("later")
        self.carry_out(*LATER)

        previous = Path(self.done("db", "restore", self.copy).data["kept"])
        self.assertEqual(self.list_dumps(), [previous])
        self.assertEqual(previous.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.names(), {"alpha"})
        self.assertTrue(before <= newest)
        self.assertEqual(self.tables(), newest)  # upgraded, and not changed otherwise
        self.done("db", "upgrade")
        self.assertEqual(self.done("db", "check").data["revision"], revisions.known()[-1])

        # and back again, from the database that was kept
        with mock.patch.object(time, "strftime", return_value="another-second"):
            self.done("db", "restore", previous)
        self.assertEqual(self.names(), {"alpha", "later"})
        self.assertEqual(self.tables(), {*newest, "newer"})
        self.assertEqual(len(self.list_dumps()), 2)

    @proves("svcctl backup now|list|prove|restore")
    def test_restoring_a_whole_host_backup_discards_later_changes(self) -> None:
        self.at("head")
        self.add("alpha")
        earlier = self.folder / "before-restore-19990101-000000.dump"
        earlier.write_text("of a restore long ago")
        file = self.done("backup", "now").data["file"]
        with tarfile.open(file) as archive:
            self.assertNotIn(f"files/{earlier.name}", archive.getnames())
        earlier.unlink()
        self.add("later")
        self.carry_out(*LATER)
        previous = Path(self.done("backup", "restore", file).data["kept"])
        self.assertEqual(self.list_dumps(), [previous])
        self.assertEqual(self.names(), {"alpha"})
        self.assertNotIn("newer", self.tables())

    @proves("svcctl db")
    @proves("svcctl backup now|list|prove|restore")
    def test_a_new_folder_whose_database_nobody_has_named_begins_no_other(self) -> None:
        """A backup without secrets does not contain DATABASE_URL."""
        self.filled()
        made = self.ctl("backup", "now", "--json").data["file"]
        target = nowhere(self)
        ran = self.ctl("backup", "restore", made, "--into", target)
        self.assertEqual(ran.status, 0)
        self.assertIn(f"write it into {target / 'metagame.env'} first", ran.out)
        self.assertIn(f"svcctl db restore {target / 'restored.dump'} --config {target}", ran.out)
        env = f"{target / 'metagame.env'}: DATABASE_URL is still postgresql://USER"
        self.assertIn(f"the change was made, but is not in the audit log: {env}", ran.line)
        for words in (("db", "upgrade"), ("doctor",)):
            ran = svcctl(*words, "--config", target)
            self.assertEqual(ran.status, 1)
            self.assertIn(env, ran.out + ran.err)
        change(target, "metagame", "DATABASE_URL", self.url)
        self.assertEqual(svcctl("account", "new-key", "later", "--config", target).status, 0)

    def test_a_damaged_dump_leaves_the_database_unchanged(self) -> None:
        data = self.filled().read_bytes()
        block = data.rindex(b"\x78\x9c")  # the beginning of compressed rows
        damaged = {
            "was not changed": data[:1000],  # not even its contents can be read
            "end of file; the database was not changed": data[:-30],
            "uncompress data.*; the database was not changed": data[:block]
            + b"0"
            + data[block + 1 :],
            "psql: .*; the database was not changed": data.replace(
                b"CREATE INDEX", b"CREATE INDEY"
            ),
        }
        for number, (fault, content) in enumerate(damaged.items()):
            with self.subTest(fault):
                self.assertNotEqual(content, data)
                bad = self.copies / f"{number}.dump"
                bad.write_bytes(content)
                with mock.patch.object(time, "strftime", return_value=f"at-{number}"):
                    ran = self.ctl("db", "restore", bad)
                self.assertEqual(ran.status, 1)
                self.assertRegex(ran.line, fault)
                self.assertEqual(self.names(), {"alpha", "later"})
        self.done("db", "restore", self.copy)
        self.assertEqual(self.names(), {"alpha"})

    @proves("svcctl db")
    def test_long_reader_is_waited_for_and_then_nothing_changes(self) -> None:
        self.filled()
        # a connection of another role, because the host's own role is refused earlier
        engine = create_engine(database_url(self.admin), poolclass=NullPool)
        self.patch(postgres_restore, "_DROP", postgres_restore._DROP.replace("'30s'", "'100ms'"))
        with engine.begin() as reader:
            reader.execute(text("SELECT count(*) FROM accounts"))
            ran = self.ctl("db", "restore", self.copy)
        self.assertEqual(ran.status, 1)
        self.assertRegex(ran.line, "lock timeout; .* try again; the database was not changed$")
        self.assertEqual(self.names(), {"alpha", "later"})

    def test_no_metagame_starts_while_a_restore_holds_the_database(self) -> None:
        self.filled()
        url = database_url(self.url)
        engine = make_engine(url)
        self.addCleanup(engine.dispose)
        with restoring(url):
            self.assertRaises(BadDatabase, refuse_restored, engine)
            self.assertIn(
                "svcctl is restoring the database", self.ctl("db", "restore", self.copy).line
            )
        refuse_restored(engine)

    @proves("svcctl db")
    def test_a_dump_of_something_else_is_refused_and_nothing_is_kept(self) -> None:
        ours = self.url
        self.use_fresh()
        self.carry_out("CREATE TABLE accounts_of_others (id integer)")
        self.done("db", "backup", self.copy)
        self.url = ours
        change(self.folder, "metagame", "DATABASE_URL", self.url)
        self.at("head")
        self.add("alpha")
        ran = self.ctl("db", "restore", self.copy)
        self.assertEqual(ran.status, 1)
        self.assertIn("is not a backup of a host; the database was not changed", ran.line)
        self.assertEqual((self.names(), self.list_dumps()), ({"alpha"}, []))

    @proves("svcctl db")
    def test_a_restore_that_cannot_keep_a_copy_changes_nothing(self) -> None:
        self.filled()
        there = self.folder / "before-restore-now.dump"
        there.write_text("mine")
        with mock.patch.object(time, "strftime", return_value="now"):
            ran = self.ctl("db", "restore", self.copy)
        self.assertIn(f"{there} already exists", ran.line)
        self.assertEqual(there.read_text(), "mine")
        with (
            mock.patch.object(time, "strftime", return_value="then"),
            mock.patch.object(os, "open", side_effect=OSError(28, "No space left on device")),
        ):
            ran = self.ctl("db", "restore", self.copy)
        self.assertIn("No space left on device; the database was not changed", ran.err)
        self.assertEqual((self.names(), self.list_dumps()), ({"alpha", "later"}, [there]))

    @proves("svcctl db")
    def test_a_restore_into_an_empty_database_keeps_no_copy(self) -> None:
        self.filled()
        self.use_fresh()
        self.assertIsNone(self.done("db", "restore", self.copy).data["kept"])
        self.assertEqual((self.names(), self.list_dumps()), ({"alpha"}, []))

    @proves("svcctl backup now|list|prove|restore")
    def test_a_restore_keeps_extensions_and_publications(self) -> None:
        role = f'"{database_url(self.url).username}"'
        with self.administered() as tx:
            # no dump contains the extension that initdb creates
            tx.exec_driver_sql("DROP EXTENSION plpgsql")
            tx.exec_driver_sql("CREATE EXTENSION plpgsql")  # every server has this extension
        self.at("head")
        self.add("alpha")
        with self.administered() as tx:
            for statement in (
                "COMMENT ON EXTENSION plpgsql IS 'for the eyes of an administrator'",
                "CREATE TABLE of_another ()",
                f"ALTER TABLE of_another OWNER TO {role}",
                "ALTER EXTENSION plpgsql ADD TABLE of_another",  # in our schema
                "CREATE FUNCTION another() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                f"ALTER FUNCTION another OWNER TO {role}",
                "ALTER EXTENSION plpgsql ADD FUNCTION another()",
                "CREATE PUBLICATION all_of_it FOR ALL TABLES",
                f"ALTER SCHEMA public OWNER TO {role}",  # the remedy that many guides suggest
                f'CREATE ROLE {role[:-1]}_reads"',
                f'GRANT SELECT ON accounts TO {role[:-1]}_reads"',
            ):
                tx.exec_driver_sql(statement)
        file = self.done("backup", "now").data["file"]
        self.add("later")
        with self.administered() as tx:
            tx.exec_driver_sql(f'DROP OWNED BY {role[:-1]}_reads"')
            tx.exec_driver_sql(f'DROP ROLE {role[:-1]}_reads"')
        previous = self.done("backup", "restore", file).data["kept"]
        self.assertEqual(self.names(), {"alpha"})
        with mock.patch.object(time, "strftime", return_value="another-second"):
            self.done("db", "restore", previous)
        self.assertEqual(self.names(), {"alpha", "later"})
        with self.administered() as tx:
            for what, wanted in {
                "extname FROM pg_extension": {"plpgsql"},
                "relname FROM pg_class WHERE relname = 'of_another'": {"of_another"},
                "proname FROM pg_proc WHERE proname = 'another'": {"another"},
                "pubname FROM pg_publication": {"all_of_it"},
            }.items():
                self.assertEqual(set(tx.exec_driver_sql(f"SELECT {what}").scalars()), wanted)

        self.use_fresh()  # this role may neither create nor comment on an extension
        self.done("db", "restore", previous)
        self.assertEqual(self.names(), {"alpha", "later"})
        self.done("db", "check")

    @proves("svcctl db")
    def test_a_deadlock_is_tried_again_and_then_refused(self) -> None:
        self.filled()
        with self.administered() as tx:
            # a rollback does not undo a sequence
            tx.exec_driver_sql("CREATE SCHEMA tries CREATE SEQUENCE n")
            tx.exec_driver_sql("GRANT ALL ON SCHEMA tries TO PUBLIC")
            tx.exec_driver_sql("GRANT ALL ON SEQUENCE tries.n TO PUBLIC")
        query = (
            "DO $$ BEGIN IF nextval('tries.n') {} THEN RAISE deadlock_detected; END IF; END $$;\n"
        )
        plain = postgres_restore._DROP
        self.patch(postgres_restore, "_DROP", query.format("<= 2") + plain)
        ran = self.ctl("db", "restore", self.copy)
        self.assertEqual((ran.status, ran.err), (0, ""))
        for number in (2, 3):
            self.assertIn(
                f"; the database was not changed; trying again ({number} of 3)\n", ran.out
            )
        self.assertEqual(self.names(), {"alpha"})

        self.add("later")
        self.patch(postgres_restore, "_DROP", query.format("> 3") + plain)
        with mock.patch.object(time, "strftime", return_value="then"):
            ran = self.ctl("db", "restore", self.copy)
        self.assertEqual(ran.status, 1)
        self.assertRegex(
            ran.line,
            "metagame is running, stop .*; the database was not changed$",
        )
        self.assertEqual(self.names(), {"alpha", "later"})
        self.assertEqual(self.last_row()["refused"], ran.line.removeprefix("svcctl: "))
        with self.administered() as tx:
            self.assertEqual(tx.exec_driver_sql("SELECT last_value FROM tries.n").scalar_one(), 6)

    @proves("svcctl db")
    def test_stopped_restore_changes_nothing_and_leaves_no_lock(self) -> None:
        self.filled()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'psql'"
        )
        words = ("-m", "svcserver.ctl.main", "db", "restore", self.copy, "--config", self.folder)
        engine = create_engine(database_url(self.admin), poolclass=NullPool)
        with engine.begin() as reader, self.administered() as admin:
            reader.execute(text("SELECT count(*) FROM accounts"))

            def waits() -> bool:
                result = admin.exec_driver_sql(f"{waiting} AND wait_event_type = 'Lock'")
                return bool(result.scalar_one())

            with subprocess.Popen(
                [sys.executable, *map(str, words)], stderr=subprocess.PIPE, text=True
            ) as command:
                eventually(waits, 60)
                command.send_signal(signal.SIGTERM)
                errors = command.communicate(timeout=60)[1]
            # nothing waits any more, although the other connection still reads
            eventually(lambda: admin.exec_driver_sql(waiting).scalar_one() == 0, 20)
        self.assertEqual(command.returncode, 1)
        self.assertEqual(errors, "svcctl: the restore was stopped; the database was not changed\n")
        self.assertEqual(
            self.last_row()["refused"], "the restore was stopped; the database was not changed"
        )
        self.assertEqual(self.names(), {"alpha", "later"})

    @proves("svcctl db")
    def test_a_restore_cut_during_its_commit_is_reported_as_possibly_done(self) -> None:
        """PostgreSQL closes the connection during the commit."""
        self.filled()
        plain = postgres_restore._write_script

        def cut_commit(psql: subprocess.Popen[bytes], script: bytes) -> None:
            if script == b"COMMIT;\n":
                with self.administered() as tx:
                    tx.exec_driver_sql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                        "current_database() AND application_name = 'psql'"
                    )
            plain(psql, script)

        self.patch(postgres_restore, "_write_script", cut_commit)
        with mock.patch.object(time, "strftime", return_value="then"):
            ran = self.ctl("db", "restore", self.copy)
        previous = self.folder / "before-restore-then.dump"
        self.assertEqual(ran.status, 1)
        self.assertRegex(
            ran.line, f"may have been restored: .*; the previous database is in {previous}$"
        )
        row = self.last_row()
        self.assertEqual(
            (row["refused"], row["after"]), (None, {"outcome": "failed: it may have been done"})
        )

    @proves("svcctl backup now|list|prove|restore")
    def test_all_programs_are_looked_for_before_anything_is_done(self) -> None:
        self.filled()
        file = self.done("backup", "now").data["file"]
        made = list(Path(file).parent.iterdir())
        which = shutil.which
        gone = {"psql", "pg_restore"}
        with mock.patch.object(shutil, "which", lambda name: None if name in gone else which(name)):
            for words in (("backup", "restore", file), ("db", "restore", self.copy)):
                line = self.ctl(*words).line
                self.assertIn("pg_restore and psql are missing; install PostgreSQL's", line)
            self.assertIn("pg_restore is missing", self.ctl("backup", "prove", file).line)
        with mock.patch.object(shutil, "which", return_value=None):
            self.assertIn("pg_dump is missing", self.ctl("backup", "now").line)
        self.assertEqual((self.list_dumps(), list(Path(file).parent.iterdir())), ([], made))
