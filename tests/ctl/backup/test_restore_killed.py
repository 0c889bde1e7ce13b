"""``svcctl backup restore --into`` is killed at each of its steps, and then repeated."""

import os
import shutil
import signal
from functools import partial
from pathlib import Path
from unittest import mock

import pyrage
import pytest
from attrs import evolve

from svcserver.ctl import begun
from svcserver.ctl.backup import archive
from svcserver.ctl.backup.restoring import opened
from svcserver.ctl.backup.sealing import BackupLock
from svcserver.kernel.secrets import Secret
from tests.ctl.backup.test_command import BackupCase
from tests.ctl.command import Ran, nowhere, svcctl
from tests.ctl.killed import KILLED, child, killed_at_rename, killed_at_step
from tests.support import cheap_age

WORDS = "correct horse battery"
MOST = 1000  # steps of a restore
STRIDE = 41  # steps from one kill to the next, of some 230; 1 takes six minutes
STATE = "backup-state.json"


@pytest.mark.live
class KilledTests(BackupCase):
    def backup(self, *, secrets: bool, kind: str) -> Path:
        """Return an unencrypted backup of a database of this kind.

        If the kind is PostgreSQL, a dummy file takes the place of the dump.
        """
        self.stack_env(f"BACKUP_PASSPHRASE={WORDS}", f"BACKUP_SECRETS={int(secrets)}")
        self.patch(pyrage.passphrase, "encrypt", cheap_age.encrypt)
        parts = nowhere(self)
        parts.parent.mkdir(exist_ok=True)
        made = Path(self.made().data["file"])
        contents = opened(made, BackupLock(passphrase=Secret(WORDS)), parts)
        shutil.rmtree(made.parent)  # another backup may be made in the same second
        (self.folder / STATE).unlink()
        file = parts.with_name("one.tar.gz")
        packed = {name: parts / name for name in contents.files}
        archive.pack(file, evolve(contents, kind=kind), packed)
        return file

    def restored(self, file: Path, folder: Path) -> Ran:
        return svcctl("backup", "restore", file, "--into", folder)

    def sound_or_none(self, folder: Path, whole: set[str]) -> bool:
        """Return whether the folder holds a host; fail if an incomplete host could start."""
        there = files_of(folder)
        if begun.LAST in there:
            self.assertEqual(there, whole)
        elif any(name.endswith(".env") for name in there):
            self.assertEqual({name for name in whole - there if not name.endswith(".env")}, set())
        return begun.LAST in there

    def killed_everywhere(self, *, secrets: bool, kind: str) -> None:
        file, target = self.backup(secrets=secrets, kind=kind), nowhere(self)
        self.assertEqual(self.restored(file, target).status, 0)
        whole = files_of(target)
        for number in range(1, MOST, STRIDE):
            folder = nowhere(self)
            trap = partial(killed_at_step, number, folder)
            if (status := child(trap, "backup", "restore", file, "--into", folder)) != KILLED:
                break
            if self.sound_or_none(folder, whole):
                self.assertIn("is not empty", self.restored(file, folder).err)
            else:
                ran = self.restored(file, folder)
                self.assertEqual(ran.status, 0, ran.err)
            self.assert_whole(folder, whole, kind)
        self.assertEqual(status, 0)
        self.assertGreater(number, 50)

    def assert_whole(self, folder: Path, whole: set[str], kind: str) -> None:
        self.assertEqual(files_of(folder), whole)
        self.assertEqual([path for path in folder.iterdir() if path.name[0] == "."], [])
        for path in folder.glob("*.env"):
            text = path.read_text()
            self.assertNotIn(begun.WORK, text)
        if kind == "sqlite":
            self.assertEqual(self.names(folder), {"Olga"})

    # slow: a host is restored again and again
    def test_a_killed_restore_with_its_secrets_is_completed_on_retry(self) -> None:
        self.killed_everywhere(secrets=True, kind="sqlite")

    # slow: the same
    def test_a_killed_restore_with_new_secrets_is_completed_on_retry(self) -> None:
        self.killed_everywhere(secrets=False, kind="sqlite")

    # slow: the same
    def test_a_killed_restore_of_postgresql_is_completed_on_retry(self) -> None:
        for secrets in (False, True):
            self.killed_everywhere(secrets=secrets, kind="postgresql")

    def begun(self, file: Path, *, moves: int) -> Path:
        """Return a folder whose restore was killed after it had put ``moves`` files into place."""
        folder = nowhere(self)
        trap = partial(killed_at_rename, 2 + moves)  # the first rename is the note's
        self.assertEqual(child(trap, "backup", "restore", file, "--into", folder), KILLED)
        return folder

    def test_only_the_same_backup_can_finish_an_interrupted_restore(self) -> None:
        file = self.backup(secrets=True, kind="sqlite")
        another = self.backup(secrets=False, kind="sqlite")
        folder = self.begun(file, moves=1)
        before = files_of(folder)
        for ran in (self.restored(another, folder), svcctl("init", folder)):
            self.assertEqual((ran.status, files_of(folder)), (1, before))
            cure = f"run svcctl backup restore {file} --into {folder} with the same options"
            self.assertIn(cure, ran.line)
        self.assertEqual(self.restored(file, folder).status, 0)

    def test_a_restore_killed_before_it_placed_a_file_blocks_nothing(self) -> None:
        file = self.backup(secrets=True, kind="sqlite")
        another = self.backup(secrets=False, kind="sqlite")
        words = ("backup", "restore", file, "--into")
        first, second = nowhere(self), nowhere(self)
        for folder in (first, second):
            self.assertEqual(child(killed_at_place, *words, folder), KILLED)
        self.assertIn("created anew", self.restored(another, first).out)
        self.assertEqual(svcctl("init", second, "--owner", "Ben").status, 0)
        self.assertEqual(self.names(second), {"Ben"})


def killed_at_place() -> None:
    """Kill this process after all files are written, but before the first is moved into place."""
    killed = mock.Mock(side_effect=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    mock.patch.object(begun, "place", killed).start()


def files_of(folder: Path) -> set[str]:
    """Return the paths of the installed files, relative to the folder."""
    paths = folder.rglob("*") if folder.exists() else ()
    names = (str(path.relative_to(folder)) for path in paths if path.is_file())
    return {path for path in names if path[0] != "."}
