"""A drill removes a killed drill's leftovers, and nothing else."""

import os
import shutil
import tempfile
from pathlib import Path
from unittest import mock

from sqlalchemy.engine import make_url
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.backup import scratch
from svcserver.ctl.backup.archive import DamagedBackup
from svcserver.kernel import backups
from tests.support.proves import proves

SQLITE = make_url("sqlite:///svc.db")
SERVER = make_url("postgresql://svc:hush@db.example:5432/svc")


class ScratchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(tempfile, "tempdir", str(self.folder)))
        self.statements: list[str] = []
        self.enterContext(mock.patch.object(scratch, "on_server", self.carried_out))

    def carried_out(self, _: object, statement: str) -> None:
        self.statements.append(statement)

    def left(self, name: str = "svc-drill-dead", database: str = "") -> Path:
        """Create the folder that a killed drill leaves behind."""
        made = self.folder / name
        (made / "host").mkdir(parents=True)
        (made / backups.RUN_FILE).touch()
        if database:
            (made / scratch.DATABASE).write_text(database)
        return made

    @proves("svcctl backup now|list|prove|restore")
    def test_a_drill_removes_its_files_and_those_of_a_killed_drill(self) -> None:
        left, foreign = self.left(), self.folder / "svc-else"
        foreign.mkdir()
        with scratch.scratch(SQLITE) as folder:
            self.assertTrue(folder.name.startswith("svc-drill-"))
            self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
            self.assertFalse(left.exists())
        self.assertEqual(os.listdir(self.folder), ["svc-else"])

    def test_the_scratch_folder_of_a_running_drill_is_not_removed(self) -> None:
        with scratch.scratch(SQLITE) as first:
            with scratch.scratch(SQLITE):
                self.assertTrue(first.is_dir())
            scratch.remove_left_over(SQLITE)
            self.assertTrue(first.is_dir())

    def test_a_folder_that_another_drill_removes_is_no_fault(self) -> None:
        with scratch.scratch(SQLITE) as folder:
            shutil.rmtree(folder)
        self.assertEqual(os.listdir(self.folder), [])

    def test_scratch_links_and_other_users_folders_are_not_removed(self) -> None:
        elsewhere = self.folder / "precious"
        elsewhere.mkdir()
        (self.folder / "svc-drill-link").symlink_to(elsewhere)
        scratch.remove_left_over(SQLITE)
        # the drill did not look here, because it created no lock
        self.assertEqual(os.listdir(elsewhere), [])
        left = self.left()
        with mock.patch("os.geteuid", return_value=os.geteuid() + 1):
            scratch.remove_left_over(SQLITE)
        self.assertTrue(left.exists())

    @proves("svcctl backup: one that dies in the middle is noticed")
    def test_the_drill_database_is_dropped_before_its_folder_is_removed(self) -> None:
        name = "svc_drill_0a1b2c3d"
        left = self.left(database=f"{name} db.example:5432")
        scratch.remove_left_over(SQLITE)
        scratch.remove_left_over(SERVER.set(host="other.example"))
        with mock.patch.object(scratch, "on_server", side_effect=DamagedBackup("in use")):
            scratch.remove_left_over(SERVER)
        self.assertTrue(left.exists())
        self.assertEqual(self.statements, [])
        scratch.remove_left_over(SERVER)
        self.assertFalse(left.exists())
        self.assertEqual(self.statements, [f'DROP DATABASE IF EXISTS "{name}"'])

    def test_no_name_but_that_of_a_drill_is_dropped(self) -> None:
        left = self.left(database='svc"; DROP DATABASE svc; -- db.example:5432')
        scratch.remove_left_over(SERVER)
        self.assertEqual((self.statements, left.exists()), ([], True))

    def test_a_database_is_noted_before_it_is_made(self) -> None:
        with scratch.scratch(SERVER) as folder, scratch.database(folder, SERVER) as url:
            noted = (folder / scratch.DATABASE).read_text()
            self.assertEqual(noted, f"{url.database} db.example:5432")
            killed = self.left(database=noted)
            scratch.remove_left_over(SERVER)
            self.assertFalse(killed.exists())
            self.assertEqual(self.statements.pop(), f'DROP DATABASE IF EXISTS "{url.database}"')
        self.assertEqual(
            self.statements,
            [f'CREATE DATABASE "{url.database}"', f'DROP DATABASE "{url.database}"'],
        )
