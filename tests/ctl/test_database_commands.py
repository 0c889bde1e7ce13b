"""``svcctl db``. Spec: design §2."""

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest import mock

from svcserver.ctl import database_commands, noting, postgres
from svcserver.ctl.output import Failed, HalfDone
from svcserver.ctl.stopping import EndedBySignal
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves


class DatabaseTests(HostCase):
    def test_check_reports_a_sound_database_as_ok(self) -> None:
        data = self.ctl("db", "check", "--json").data
        self.assertEqual((data["ok"], data["accounts"], data["saves"]), (True, 1, 0))

    @proves("svcctl db")
    def test_check_finds_damage(self) -> None:
        path = self.folder / "svc.db"
        data = bytearray(path.read_bytes())
        for at in range(16384 * 3, len(data) - 100, 1024):
            data[at : at + 64] = b"\xff" * 64
        path.write_bytes(bytes(data))
        self.assertEqual(self.ctl("db", "check").status, 1)

    def test_backup_now_copies_the_database_alone(self) -> None:
        copy = self.folder / "copy.db"
        self.assertEqual(self.ctl("backup", "now", "--database", copy).status, 0)
        self.assertEqual(database_commands.sqlite_faults(copy), [])
        self.assertFalse((self.folder / "backups").exists())
        self.assertEqual(self.ctl("backup", "now", "--database", copy, "--prove").status, 1)

    @proves("svcctl db")
    def test_backup_and_restore_bring_everything_back(self) -> None:
        copy = self.folder / "copy.db"
        self.ctl("account", "create", "Alpha")
        self.assertEqual(self.ctl("db", "backup", copy).status, 0)
        self.assertEqual(copy.stat().st_mode & 0o777, 0o600)
        self.assertEqual([path.name for path in self.folder.glob("copy*")], ["copy.db"])
        self.ctl("account", "create", "Later")
        ran = self.ctl("db", "restore", copy, "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(self.accounts(), {"Olga": True, "Alpha": False})
        with closing(sqlite3.connect(ran.data["kept"])) as previous:
            names = {row[0] for row in previous.execute("SELECT username FROM accounts")}
        self.assertEqual(names, {"Olga", "Alpha", "Later"})

    def test_backup_never_overwrites(self) -> None:
        copy = self.folder / "copy.db"
        copy.write_text("mine")
        self.assertEqual(self.ctl("db", "backup", copy).status, 1)
        self.assertEqual(copy.read_text(), "mine")

    @proves("svcctl db")
    def test_backup_during_a_write_copies_the_state_before_it(self) -> None:
        copy = self.folder / "copy.db"
        self.patch(noting, "WAIT_MS", 50)  # the row of the audit log waits for the writer
        with closing(sqlite3.connect(self.folder / "svc.db", isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE accounts SET notes = 77")
            ran = self.ctl("db", "backup", copy)
            self.assertEqual(ran.status, 0)
            self.assertIn("the change was made, but is not in the audit log", ran.err)
            writer.execute("COMMIT")
        with closing(sqlite3.connect(copy)) as backup:
            self.assertEqual(backup.execute("SELECT notes FROM accounts").fetchall(), [(0,)])

    def held(self) -> tuple[Path, Path]:
        """Return a database to copy, and a destination that another process locks."""
        copy, target = self.folder / "copy.db", self.folder / "svc.db"
        self.assertEqual(self.ctl("db", "backup", copy).status, 0)
        holder = sqlite3.connect(target, isolation_level=None)
        self.addCleanup(holder.close)
        holder.execute("BEGIN IMMEDIATE")
        return copy, target

    def test_a_copy_from_a_locked_database_fails_after_a_timeout(self) -> None:
        self.patch(database_commands, "LOCKED_S", 0)
        copy, target = self.held()
        with self.assertRaisesRegex(Failed, "another program has locked one of the databases"):
            database_commands.copy_sqlite(copy, target)

    def test_a_signal_ends_a_waiting_copy_and_names_the_previous_database(self) -> None:
        copy, target = self.held()

        def end(*_: object) -> None:
            raise EndedBySignal(143)

        before = signal.signal(signal.SIGALRM, end)
        try:
            with self.assertRaises((HalfDone, EndedBySignal)) as caught:
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                database_commands.put_back(copy, target)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if isinstance(
            caught.exception, HalfDone
        ):  # otherwise the error came before the copy, on a slow machine
            self.assertIn("previous database is in", caught.exception.message)

    @proves("svcctl db")
    def test_restore_refuses_files_that_are_no_backup(self) -> None:
        before = self.accounts()
        text, foreign = self.folder / "text", self.folder / "other.db"
        text.write_text("not a database, and longer than a header would be" * 9)
        with closing(sqlite3.connect(foreign)) as db:
            db.execute("CREATE TABLE cats(name)")
        for path in (text, foreign, self.folder / "missing"):
            self.assertEqual(self.ctl("db", "restore", path).status, 1)
        self.assertEqual(self.accounts(), before)

    def test_restore_ends_the_sessions_of_the_dashboard(self) -> None:
        copy = self.folder / "copy.db"
        with closing(sqlite3.connect(self.folder / "svc.db")) as db, db:
            db.execute("INSERT INTO dashboard_sessions VALUES ('hash', 'someone', 0, '', 9e15)")
        self.assertEqual(self.ctl("db", "backup", copy).status, 0)
        self.assertEqual(self.ctl("db", "restore", copy).status, 0)
        with closing(sqlite3.connect(self.folder / "svc.db")) as db:
            rows = db.execute("SELECT * FROM dashboard_sessions").fetchall()
        self.assertEqual(rows, [])

    def test_restore_refuses_a_database_with_views_or_triggers(self) -> None:
        for code in (
            "CREATE VIEW v AS SELECT 1",
            "CREATE TRIGGER t AFTER INSERT ON accounts BEGIN DELETE FROM accounts; END",
        ):
            copy = self.folder / f"{code.split()[1]}.db"
            self.assertEqual(self.ctl("db", "backup", copy).status, 0)
            with closing(sqlite3.connect(copy)) as db:
                db.execute(code)
            self.assertIn("no version", self.ctl("db", "restore", copy).line)

    @proves("svcctl db")
    def test_upgrade_makes_a_private_file(self) -> None:
        (self.folder / "svc.db").unlink()
        self.assertEqual(self.ctl("db", "upgrade").status, 0)
        self.assertEqual((self.folder / "svc.db").stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.accounts(), {})
        self.assertEqual(self.ctl("db", "upgrade").status, 0)

    def test_a_missing_postgres_program_is_named(self) -> None:
        path = self.folder / "metagame.env"
        path.write_text("DATABASE_URL=postgresql://u:hush@127.0.0.1:1/x\n")
        with mock.patch.object(shutil, "which", return_value=None):
            ran = self.ctl("db", "backup", self.folder / "copy")
        self.assertEqual(ran.status, 1)
        self.assertIn("pg_dump is missing", ran.line)
        self.assertNotIn("hush", ran.line)

    def test_the_error_line_of_postgresql_is_found_in_any_language(self) -> None:
        german = (
            "psql:<stdin>:3: FEHLER:  40P01: Verklemmung entdeckt\n"
            "DETAIL:  Prozess 7 wartet\nORT:  DeadLockReport, deadlock.c:1148\n"
        )
        output = "psql:<stdin>:3: FEHLER: 40P01: Verklemmung entdeckt"
        self.assertEqual(postgres.fault(german, 3), output)
        self.assertEqual(postgres.fault("pg_dump: error: no\nhint", 1), "pg_dump: error: no")
        self.assertEqual((postgres.fault("a\nb", 1), postgres.fault("", 3)), ("b", "status 3"))

    def test_a_database_that_is_not_there_leaks_no_password(self) -> None:
        path = self.folder / "metagame.env"
        path.write_text("DATABASE_URL=postgresql://u:hush@127.0.0.1:1/x\n")
        ran = self.ctl("account", "list")
        self.assertEqual(ran.status, 1)
        self.assertNotIn("hush", ran.line)
