"""A restore into the PostgreSQL of a host: from before a migration, damaged, and back again."""

from __future__ import annotations

import os
import tarfile
import time
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import NullPool, create_engine, inspect, text

from svcserver.ctl import postgres
from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.migrations import revisions
from tests.ctl.command import Ran, nowhere
from tests.ctl.hosts import change
from tests.ctl.test_accounts import HostCase
from tests.support.postgres import fresh_database
from tests.support.proves import proves

# what a migration of tomorrow adds, bound to a table of today
LATER = (
    "CREATE TYPE newer_kind AS ENUM ('one', 'other')",
    "CREATE TABLE newer (id serial PRIMARY KEY, account_id varchar(64) REFERENCES accounts,"
    " kind newer_kind, number bigint GENERATED ALWAYS AS IDENTITY)",
    "CREATE VIEW newer_seen AS SELECT account_id FROM newer",
    "CREATE FUNCTION newer_kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER kept BEFORE UPDATE ON newer EXECUTE FUNCTION newer_kept()",
)


@pytest.mark.live
class RestoreTests(HostCase):
    def setUp(self) -> None:
        super().setUp()
        self.url = fresh_database()
        change(self.folder, "metagame", "DATABASE_URL", self.url)
        self.copies = nowhere(self)
        self.copies.mkdir()
        self.copy = self.copies / "copy.dump"

    def at(self, revision: str) -> None:
        """Bring the database to a revision."""
        engine = make_engine(database_url(self.url))
        migrations.upgrade(engine, revision)
        engine.dispose()

    def carry_out(self, *statements: str, **values: str) -> None:
        with create_engine(database_url(self.url), poolclass=NullPool).begin() as tx:
            for one in statements:
                tx.execute(text(one), values)

    def add(self, name: str) -> None:
        self.carry_out(
            "INSERT INTO accounts (id, username, username_folded, created_at) "
            "VALUES (:name, :name, :name, 1)",
            name=name,
        )

    def names(self) -> set[str]:
        with create_engine(database_url(self.url), poolclass=NullPool).connect() as tx:
            return set(tx.execute(text("SELECT username FROM accounts")).scalars())

    def tables(self) -> set[str]:
        with create_engine(database_url(self.url), poolclass=NullPool).connect() as tx:
            return set(inspect(tx).get_table_names())

    def done(self, *words: object) -> Ran:
        ran = self.ctl(*words, "--json")
        self.assertEqual(ran.status, 0, ran.err)
        return ran

    def filled(self) -> Path:
        """A dump of the newest revision with one account; a second comes after it."""
        self.at("head")
        self.add("alpha")
        self.done("db", "backup", self.copy)
        self.add("later")
        return self.copy

    def kept(self) -> list[Path]:
        return sorted(self.folder.glob("before-restore-*"))

    @proves("svcctl db")
    def test_a_backup_from_before_a_migration_comes_back_and_what_was_there_is_kept(self) -> None:
        self.at(revisions.known()[-2])
        self.add("alpha")
        self.done("db", "backup", self.copy)
        before = self.tables()
        self.at("head")
        newest = self.tables()
        self.add("later")
        self.carry_out(*LATER)

        kept = Path(self.done("db", "restore", self.copy).data["kept"])
        self.assertEqual(self.kept(), [kept])
        self.assertEqual(kept.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.names(), {"alpha"})
        self.assertTrue(before <= newest)
        self.assertEqual(self.tables(), newest)  # brought up to date, and nothing besides
        self.done("db", "upgrade")
        self.assertEqual(self.done("db", "check").data["revision"], revisions.known()[-1])

        # and forth again: by what was kept
        with mock.patch.object(time, "strftime", return_value="another-second"):
            self.done("db", "restore", kept)
        self.assertEqual(self.names(), {"alpha", "later"})
        self.assertEqual(self.tables(), {*newest, "newer"})
        self.assertEqual(len(self.kept()), 2)

    @proves("svcctl backup now|list|prove|restore")
    def test_a_backup_of_the_whole_host_replaces_what_came_after_it(self) -> None:
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
        kept = Path(self.done("backup", "restore", file).data["kept"])
        self.assertEqual(self.kept(), [kept])
        self.assertEqual(self.names(), {"alpha"})
        self.assertNotIn("newer", self.tables())

    @proves("svcctl db")
    def test_a_damaged_dump_leaves_what_was_there(self) -> None:
        data = self.filled().read_bytes()
        block = data.rindex(b"\x78\x9c")  # where compressed rows begin
        damaged = {
            "was not touched": data[:1000],  # not even its contents can be read
            "end of file; the database is as it was": data[:-30],
            "uncompress data.*; the database is as it was": data[:block] + b"0" + data[block + 1 :],
            "psql: .*; the database is as it was": data.replace(b"CREATE INDEX", b"CREATE INDEY"),
        }
        for number, (said, content) in enumerate(damaged.items()):
            with self.subTest(said):
                self.assertNotEqual(content, data)
                bad = self.copies / f"{number}.dump"
                bad.write_bytes(content)
                with mock.patch.object(time, "strftime", return_value=f"at-{number}"):
                    ran = self.ctl("db", "restore", bad)
                self.assertEqual(ran.status, 1)
                self.assertRegex(ran.line, said)
                self.assertEqual(self.names(), {"alpha", "later"})
        self.done("db", "restore", self.copy)
        self.assertEqual(self.names(), {"alpha"})

    @proves("svcctl db")
    def test_who_reads_a_table_for_long_is_waited_for_and_then_nothing_is_changed(self) -> None:
        self.filled()
        engine = create_engine(database_url(self.url), poolclass=NullPool)
        self.patch(postgres, "_DROP", postgres._DROP.replace("'30s'", "'100ms'"))
        with engine.begin() as other:
            other.execute(text("SELECT count(*) FROM accounts"))
            ran = self.ctl("db", "restore", self.copy)
        self.assertEqual(ran.status, 1)
        self.assertRegex(ran.line, "lock timeout; the database is as it was")
        self.assertEqual(self.names(), {"alpha", "later"})

    @proves("svcctl db")
    def test_a_dump_of_something_else_is_refused_and_nothing_is_kept(self) -> None:
        ours = self.url
        self.url = fresh_database()
        self.carry_out("CREATE TABLE accounts_of_others (id integer)")
        change(self.folder, "metagame", "DATABASE_URL", self.url)
        self.done("db", "backup", self.copy)
        self.url = ours
        change(self.folder, "metagame", "DATABASE_URL", self.url)
        self.at("head")
        self.add("alpha")
        ran = self.ctl("db", "restore", self.copy)
        self.assertEqual(ran.status, 1)
        self.assertIn("is no backup of a host; the database was not touched", ran.line)
        self.assertEqual((self.names(), self.kept()), ({"alpha"}, []))

    @proves("svcctl db")
    def test_what_cannot_be_kept_is_not_replaced(self) -> None:
        self.filled()
        there = self.folder / "before-restore-now.dump"
        there.write_text("mine")
        with mock.patch.object(time, "strftime", return_value="now"):
            ran = self.ctl("db", "restore", self.copy)
        self.assertIn(f"{there} exists already", ran.line)
        self.assertEqual(there.read_text(), "mine")
        with (
            mock.patch.object(time, "strftime", return_value="then"),
            mock.patch.object(os, "open", side_effect=OSError(28, "No space left on device")),
        ):
            ran = self.ctl("db", "restore", self.copy)
        self.assertIn("No space left on device; the database was not touched", ran.err)
        self.assertEqual((self.names(), self.kept()), ({"alpha", "later"}, [there]))

    @proves("svcctl db")
    def test_into_an_empty_database_nothing_is_kept(self) -> None:
        self.filled()
        self.url = fresh_database()
        change(self.folder, "metagame", "DATABASE_URL", self.url)
        self.assertIsNone(self.done("db", "restore", self.copy).data["kept"])
        self.assertEqual((self.names(), self.kept()), ({"alpha"}, []))
