"""``svcctl db copy``. Spec: design §2."""

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    create_engine,
    insert,
    select,
    text,
)
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import database_copy
from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from tests.ctl.command import nowhere, svcctl
from tests.ctl.test_accounts import HostCase
from tests.support.postgres import fresh_database

ROWS = database_copy.ROWS + 7  # more than one part
Rows = dict[str, list[tuple[Any, ...]]]


def value(column: Column[Any], number: int) -> Any:
    """Return a value of the column's type for row ``number``.

    A text depends only on the number, so that foreign keys match.
    """
    if column.nullable and number % 2:
        return None
    kind = column.type
    if isinstance(kind, Boolean):
        return bool(number % 2)
    if isinstance(kind, Float):
        return number / 7
    if isinstance(kind, Integer):
        return number if column.primary_key else number + 2**30
    if isinstance(kind, LargeBinary):
        return b'{"\x00\xff": "%d"}' % number
    return f"é{number}"


def tables(engine: Engine) -> list[Table]:
    metadata = MetaData()
    metadata.reflect(engine)
    return [table for table in metadata.sorted_tables if table.name != database_copy.REVISION]


def fill(url: str) -> None:
    """Insert rows into every table."""
    engine = make_engine(database_url(url))
    migrations.upgrade(engine)
    with engine.begin() as tx:
        for table in tables(engine):
            rows = [
                {column.name: value(column, number) for column in table.columns}
                for number in range(1, ROWS + 1)
            ]
            tx.execute(insert(table), rows)
    engine.dispose()


@lru_cache(maxsize=1)
def full_file() -> bytes:
    """Return a SQLite file with rows in every table, made only once."""
    with tempfile.TemporaryDirectory() as folder:
        fill(f"sqlite:///{folder}/full.db")
        return Path(folder, "full.db").read_bytes()


def read(url: str) -> Rows:
    """Return the whole contents of a database."""
    engine = make_engine(database_url(url))
    with engine.connect() as tx:
        rows = {
            table.name: sorted((tuple(row) for row in tx.execute(select(table))), key=repr)
            for table in tables(engine)
        }
    engine.dispose()
    return rows


class CopyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = nowhere(self)
        self.folder.mkdir()

    def sqlite(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}"

    def filled(self) -> str:
        (self.folder / "full.db").write_bytes(full_file())
        return self.sqlite("full.db")

    @pytest.mark.live
    def test_every_row_is_copied_to_postgresql_and_back(self) -> None:
        first, between, last = self.filled(), fresh_database(), self.sqlite("last.db")
        before = read(first)
        self.assertTrue(all(len(rows) == ROWS for rows in before.values()))
        ran = svcctl("db", "copy", first, between, "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(ran.data["tables"], {name: ROWS for name in sorted(before)})
        self.assertEqual(read(between), before)
        self.assertEqual(svcctl("db", "copy", between, last).status, 0)
        self.assertEqual(read(last), before)
        self.assertEqual((self.folder / "last.db").stat().st_mode & 0o777, 0o600)

    @pytest.mark.live
    def test_new_rows_are_numbered_after_the_copied_rows(self) -> None:
        target = fresh_database()
        self.assertEqual(svcctl("db", "copy", self.filled(), target).status, 0)
        engine = make_engine(database_url(target))
        self.addCleanup(engine.dispose)
        numbered = 0
        for table in tables(engine):
            key = list(table.primary_key.columns)
            if len(key) != 1 or not isinstance(key[0].type, Integer):
                continue
            row = {
                column.name: value(column, ROWS + 2)
                for column in table.columns
                if column is not key[0]
            }
            with engine.begin() as tx:
                new = tx.execute(insert(table).values(**row)).inserted_primary_key
            self.assertEqual(new, (ROWS + 1,), table.name)
            numbered += 1
        self.assertGreater(numbered, 3)

    @pytest.mark.live
    def test_an_empty_host_numbers_from_one(self) -> None:
        source, target = self.sqlite("empty.db"), fresh_database()
        migrations.upgrade(make_engine(database_url(source)))
        self.assertEqual(svcctl("db", "copy", source, target).status, 0)
        engine = make_engine(database_url(target))
        self.addCleanup(engine.dispose)
        with engine.begin() as tx:
            at = tx.execute(text("SELECT nextval('character_saves_id_seq')")).scalar()
        self.assertEqual(at, 1)

    @pytest.mark.live
    def test_a_target_with_rows_is_left_alone(self) -> None:
        source = self.filled()
        for target in (self.sqlite("other.db"), fresh_database()):
            self.assertEqual(svcctl("db", "copy", source, target).status, 0)
            ran = svcctl("db", "copy", source, target)
            self.assertEqual((ran.status, ran.out), (1, ""))
            self.assertIn("TARGET is not empty", ran.line)

    @pytest.mark.live
    def test_a_failure_halfway_leaves_the_target_empty(self) -> None:
        target = fresh_database()
        source = self.filled()
        engine = make_engine(database_url(source))
        with engine.begin() as tx:  # SQLite takes a name of any length
            tx.execute(text("UPDATE accounts SET username = :long"), {"long": "x" * 65})
        engine.dispose()
        ran = svcctl("db", "copy", source, target)
        self.assertEqual(ran.status, 1)
        self.assertIn("value too long", ran.line)
        self.assertEqual(set(map(len, read(target).values())), {0})

    def test_a_count_that_differs_undoes_everything(self) -> None:
        target, counted = self.sqlite("other.db"), database_copy._count

        def short(tx: Any, table: Table) -> int:
            there = "full.db" in str(tx.engine.url)
            return counted(tx, table) + (there and table.name == "accounts")

        with mock.patch.object(database_copy, "_count", short):
            ran = svcctl("db", "copy", self.filled(), target)
        self.assertEqual(ran.status, 1)
        counts = f"{ROWS} rows in TARGET and {ROWS + 1} rows in SOURCE"
        self.assertIn(f"the table accounts has {counts}", ran.line)
        self.assertEqual(set(map(len, read(target).values())), {0})

    def test_an_unknown_table_stops_the_copy_and_is_named(self) -> None:
        source = self.filled()
        engine = make_engine(database_url(source))
        with engine.begin() as tx:
            tx.execute(text("CREATE TABLE cats(name TEXT)"))
        engine.dispose()
        ran = svcctl("db", "copy", source, self.sqlite("other.db"))
        self.assertEqual(ran.status, 1)
        self.assertIn("cats", ran.line)

    def test_a_source_of_another_version_fails_with_one_line(self) -> None:
        full, target = self.filled(), self.sqlite("other.db")
        engine = create_engine(full)
        self.addCleanup(engine.dispose)
        with engine.begin() as tx:
            tx.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
        ran = svcctl("db", "copy", full, target)
        self.assertEqual((ran.status, ran.out), (1, ""))
        self.assertIn("SOURCE is a database of another svcserver version", ran.line)

    def test_a_copy_with_an_unusable_database_fails_with_one_line(self) -> None:
        full, missing = self.filled(), self.sqlite("missing.db")
        nothing = Path(self.folder, "nothing.db")
        nothing.touch()
        for source, target in (
            (full, full),
            (missing, self.sqlite("other.db")),
            (f"sqlite:///{nothing}", self.sqlite("other.db")),
            ("mysql://u:hush@h/x", full),
            (full, "postgresql://u:hush@127.0.0.1:1/x"),
            ("postgresql://u:hush@127.0.0.1:1/x", self.sqlite("other.db")),
            ("no.env", full),
        ):
            ran = svcctl("db", "copy", source, target)
            self.assertEqual((ran.status, ran.out), (1, ""), source)
            self.assertNotIn("hush", ran.line)
        self.assertFalse((self.folder / "missing.db").exists())
        self.assertFalse((self.folder / "other.db").exists())

    def test_an_older_source_is_sent_to_the_upgrade(self) -> None:
        source = self.sqlite("old.db")
        migrations.upgrade(make_engine(database_url(source)), "0002")
        ran = svcctl("db", "copy", source, self.sqlite("other.db"))
        self.assertIn("svcctl db upgrade", ran.line)


class EnvFileTests(HostCase):
    def test_passwords_stay_off_the_command_line(self) -> None:
        target = self.folder / "target.env"
        target.write_text("DATABASE_URL=sqlite:///moved.db\n")
        metagame = self.folder / "metagame.env"
        ran = svcctl("db", "copy", metagame, target)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertRegex(ran.out, r"accounts +1\n")
        metagame.write_text(target.read_text())
        self.assertEqual(self.accounts(), {"Olga": True})
