"""``svcctl backup``: making, listing and restoring backups, and deleting old backups.

A live test covers the drill that verifies a backup.
"""

import contextlib
import os
import shutil
import tarfile
import time
from errno import ENOSPC, EROFS
from pathlib import Path
from unittest import mock

import pyrage

from svcserver.ctl import begun
from svcserver.ctl.backup import command
from svcserver.ctl.backup.proving import Proof
from svcserver.ctl.begun import Begun
from svcserver.ctl.stopping import EndedBySignal
from svcserver.kernel import backups, host_state
from svcserver.kernel.host_state import HostState
from svcserver.metagame.accounts.store import SqlAccounts
from tests.ctl.command import Ran, database_of, nowhere, svcctl
from tests.ctl.hosts import change, value
from tests.ctl.test_accounts import HostCase
from tests.support import cheap_age
from tests.support.proves import proves

GOOD = mock.Mock(return_value=Proof(None))


def no_room(handle: int, *_: object) -> None:
    os.close(handle)
    raise OSError(ENOSPC, "No space left on device")


class BackupCase(HostCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(os, "nice", lambda _: 0)  # a real nice level would slow down all later tests
        # the library's own encryption, seconds of work: tests/live/test_backup.py
        self.patch(pyrage.passphrase, "encrypt", cheap_age.encrypt)

    def stack_env(self, *lines: str) -> None:
        (self.folder / "stack.env").write_text("".join(f"{line}\n" for line in lines))

    def made(self, *words: str) -> Ran:
        with mock.patch("svcserver.ctl.backup.command.prove", GOOD):
            ran = self.ctl("backup", "now", "--json", *words)
        self.assertEqual(ran.status, 0, ran.err)
        return ran

    def names(self, folder: Path) -> set[str]:
        with database_of(folder) as tx:
            return {account.username for account in SqlAccounts(tx).everyone()}


class BackupTests(BackupCase):
    def restored(self, *lines: str) -> tuple[Ran, Path]:
        """Back up a host with these ``lines`` added to stack.env; restore it into a new folder."""
        self.stack_env("BACKUP_PASSPHRASE=a long passphrase", *lines)
        self.patch(os, "environ", {**os.environ, "BACKUP_PASSPHRASE": "a long passphrase"})
        file, into = self.made().data["file"], nowhere(self)
        return svcctl("backup", "restore", file, "--into", into), into

    def test_a_restore_names_settings_that_the_backup_leaves_out(self) -> None:
        change(self.folder, "metagame", "LIVE_URL", "valkey://u:secret@127.0.0.1:6379/0")
        ran, _ = self.restored()
        self.assertEqual(ran.status, 0, ran.err)
        wanted = "LIVE_URL in metagame.env, BACKUP_PASSPHRASE in stack.env"
        self.assertIn(f"Set these again, because they are not in the backup: {wanted}\n", ran.out)

    def test_a_restore_keeps_a_file_that_is_no_text(self) -> None:
        (self.folder / "notes.env").write_bytes(b"caf\xe9=1\n")
        ran, into = self.restored("BACKUP_SECRETS=1")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertNotIn("Set these again", ran.out)
        self.assertEqual((into / "notes.env").read_bytes(), b"caf\xe9=1\n")

    def test_a_restored_launcher_readme_names_the_new_folder(self) -> None:
        ran, into = self.restored("BACKUP_SECRETS=1")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn(f"--config {into}\n", (into / "launcher" / "README.txt").read_text())

    def test_a_passphrase_is_not_asked_for_where_nobody_is(self) -> None:
        self.stack_env("BACKUP_PASSPHRASE=a long passphrase")
        file, into = self.made().data["file"], nowhere(self)
        ran = svcctl("backup", "restore", file, "--into", into)
        self.assertEqual((ran.status, ran.out), (1, ""))
        self.assertIn("The passphrase is missing", ran.err)
        self.assertFalse(into.exists())

    @proves("svcctl backup now|list|prove|restore")
    def test_the_environment_of_a_running_stack_is_in_force(self) -> None:
        self.stack_env("BACKUP_DIR=here", "BACKUP_KEEP_DAYS=1")
        environment = {"BACKUP_DIR": "there", "BACKUP_PASSPHRASE": None}
        state = HostState(time.time(), environment=environment)
        host_state.write(self.folder, state)
        ran = self.ctl("backup", "now")
        self.assertEqual(ran.status, 1)
        self.assertIn("BACKUP_PASSPHRASE is set only in the environment of svc-stack", ran.err)
        self.patch(os, "environ", {**os.environ, "BACKUP_PASSPHRASE": "a long passphrase"})
        made = self.made().data
        self.assertEqual(Path(made["file"]).parent, self.folder / "there")
        self.assertTrue(made["encrypted"])

    @proves("svcctl backup now|list|prove|restore")
    def test_the_nightly_backup_uses_its_own_environment(self) -> None:
        self.stack_env("BACKUP_DIR=here", "BACKUP_DRILL=0")
        words = {"BACKUP_DIR": "there", "BACKUP_PASSPHRASE": "a long passphrase"}
        self.patch(os, "environ", {**os.environ, **words})
        self.assertEqual(self.ctl("backup", "nightly").status, 0)
        [made] = (self.folder / "there").iterdir()
        self.assertTrue(made.name.endswith(".age"))

    @proves("svcctl backup now|list|prove|restore")
    def test_a_proven_backup_is_private_and_listed(self) -> None:
        first = self.made("--prove").data
        self.assertIsNotNone(first["proven"])
        self.assertEqual(Path(first["file"]).stat().st_mode & 0o777, 0o600)
        listed = self.ctl("backup", "list", "--json").data
        self.assertEqual([backup["file"] for backup in listed["backups"]], [first["file"]])
        self.assertIsNone(listed["wrong"])
        self.assertIn("tested 20", self.ctl("backup", "list").out)

    @proves("svcctl backup now|list|prove|restore")
    def test_a_backup_without_secrets_contains_none(self) -> None:
        file = self.made().data["file"]
        secrets = [
            value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64"),
            value(self.folder, "gateway", "GATEWAY_SECRET"),
            value(self.folder, "gateway", "ALLOWLIST_SECRET"),
            value(self.folder, "deploy", "METAGAME_API_KEY"),
            (self.folder / "owner.key").read_text().strip(),
            (self.folder / "gateway-key.pem").read_text().splitlines()[1],
        ]
        with tarfile.open(file) as archive:
            for member in archive.getmembers():
                source = archive.extractfile(member)
                assert source is not None
                data = source.read()
                if any(secret.encode() in data for secret in secrets):
                    self.fail(f"a secret is in {member.name}")
            self.assertIn("files/metagame.env", archive.getnames())

    @proves("svcctl backup now|list|prove|restore")
    def test_the_whole_host_with_its_secrets_comes_back_in_another_folder(self) -> None:
        self.stack_env("BACKUP_PASSPHRASE=correct horse battery", "BACKUP_SECRETS=1")
        # anybody can build this file again
        (self.folder / "launcher" / "svc-launcher.pyz").write_bytes(b"PK")
        made = self.made().data
        self.assertTrue(made["encrypted"])
        self.assertNotIn(b"accounts", Path(made["file"]).read_bytes())
        restored = nowhere(self)
        ran = self.ctl("backup", "restore", made["file"], "--into", restored)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(self.names(restored), {"Olga"})
        for name in ("owner.key", "gateway-key.pem", "stack.env"):
            self.assertEqual((restored / name).read_text(), (self.folder / name).read_text())
        self.assertNotIn(str(self.folder), (restored / "metagame.env").read_text())
        self.assertEqual([path.name for path in (restored / "launcher").iterdir()], ["README.txt"])
        note = (self.folder / "game" / "README.txt").read_text()
        # the note is in no backup
        self.assertEqual((restored / "game" / "README.txt").read_text(), note)
        again = self.ctl("backup", "restore", made["file"], "--into", restored)
        self.assertIn("is not empty: it contains allowlist.env. A restore", again.line)

    @proves("svcctl backup now|list|prove|restore")
    def test_a_restored_host_without_secrets_gets_new_secrets(self) -> None:
        restored = nowhere(self)
        made = self.made().data["file"]
        ran = self.ctl("backup", "restore", made, "--into", restored, "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertTrue(ran.data["made_anew"])
        self.assertEqual(self.names(restored), {"Olga"})
        name = "GATEWAY_SECRET"
        here, there = (value(folder, "gateway", name) for folder in (self.folder, restored))
        self.assertNotEqual(here, there)
        self.assertEqual(there, value(restored, "metagame", name))
        self.assertEqual(value(restored, "metagame", "SERVER_NAME"), "Game Server")
        self.assertFalse((restored / "owner.key").exists())

    def test_paths_name_the_new_folder_but_not_lookalikes(
        self,
    ) -> None:
        beside, above = f"{self.folder}-2/game.exe", f"/mnt{self.folder}/city"
        change(self.folder, "deploy", "GAMESERVER_BINARY_PATH", beside)
        change(self.folder, "metagame", "CITY_MAP", above)
        for secrets in (0, 1):
            self.stack_env("BACKUP_PASSPHRASE=correct horse", f"BACKUP_SECRETS={secrets}")
            with mock.patch("svcserver.ctl.backup.command.time.time", return_value=4e9 + secrets):
                made, restored = self.made().data["file"], nowhere(self)
            self.assertEqual(self.ctl("backup", "restore", made, "--into", restored).status, 0)
            self.assertEqual(value(restored, "deploy", "GAMESERVER_BINARY_PATH"), beside)
            self.assertEqual(value(restored, "metagame", "CITY_MAP"), above)
            self.assertEqual(value(restored, "content", "CONTENT_GAME_DIR"), f"{restored}/game")
            unit = (restored / "host" / "svc-metagame.service").read_text()
            self.assertIn(f"--env-file {restored}/metagame.env", unit)
            self.assertNotIn(str(self.folder), unit)

    @proves("svcctl backup now|list|prove|restore")
    def test_remains_of_init_do_not_block_but_a_begun_host_does(self) -> None:
        made = self.made().data["file"]
        target = nowhere(self)
        target.mkdir()
        Begun(str(target)).write(target)
        ran = self.ctl("backup", "restore", made, "--into", target)
        self.assertEqual((ran.status, ran.err, (target / begun.NOTE).exists()), (0, "", False))
        half = nowhere(self)
        half.mkdir()
        Begun(str(half)).write(half)
        (half / "owner.key").touch()
        ran = self.ctl("backup", "restore", made, "--into", half)
        self.assertEqual((ran.status, len(list(half.iterdir()))), (1, 2))
        self.assertIn(
            f"the creation of a host in {half} was interrupted: run svcctl init {half}", ran.line
        )
        file = nowhere(self)
        file.touch()
        self.assertIn("is not a folder", self.ctl("backup", "restore", made, "--into", file).line)

    @proves("svcctl backup now|list|prove|restore")
    def test_a_restore_that_fails_half_way_leaves_an_empty_folder(self) -> None:
        made = self.made().data["file"]
        target = nowhere(self)
        for why, status in (
            (OSError(ENOSPC, "No space left on device"), 1),
            (EndedBySignal(143), 143),
        ):
            with mock.patch.object(shutil, "move", side_effect=why):
                ran = self.ctl("backup", "restore", made, "--into", target)
            self.assertEqual((ran.status, list(target.iterdir())), (status, []))
            self.assertEqual("No space left on device" in ran.err, status == 1)
        self.assertEqual(self.ctl("backup", "restore", made, "--into", target).status, 0)
        self.assertEqual(self.names(target), {"Olga"})

    def test_a_folder_by_any_name_is_made_backed_up_and_restored(self) -> None:
        for name in ("größe 100%41", "which?one", "a#b", 'it\'s "$x"'):
            folder, again = nowhere(self) / name, nowhere(self) / f"again {name}"
            self.assertEqual(svcctl("init", folder, "--owner", "Olga").status, 0)
            self.assertEqual(self.names(folder), {"Olga"})
            with mock.patch("svcserver.ctl.backup.command.prove", GOOD):
                made = svcctl("backup", "now", "--json", "--config", folder)
            self.assertEqual(made.status, 0, made.err)
            # no file whose name is a part of the folder's name
            self.assertEqual([*folder.parent.iterdir()], [folder])
            ran = svcctl("backup", "restore", made.data["file"], "--into", again)
            self.assertEqual((ran.status, ran.err), (0, ""))
            self.assertEqual(self.names(again), {"Olga"})

    def test_a_folder_that_no_setting_can_name_is_refused(self) -> None:
        made = self.made().data["file"]
        for name in ("two\nlines", "not \udcff text", "blank "):
            folder = nowhere(self) / name
            for words in (("init",), ("backup", "restore", made, "--into")):
                self.assertIn("cannot be written into a setting", svcctl(*words, folder).line)
            self.assertFalse(folder.parent.exists())

    def test_a_restore_on_a_full_disk_reports_no_space_left(self) -> None:
        made, target = self.made().data["file"], nowhere(self)
        full = mock.patch("svcserver.ctl.backup.archive.os.fdopen", side_effect=no_room)
        with full:
            into = self.ctl("backup", "restore", made, "--into", target).line
            here = self.ctl("backup", "restore", made).line
        self.assertIn(f"{target} cannot be written: No space left", into)
        self.assertIn("cannot be restored: No space left", here)
        self.assertEqual(list(target.iterdir()), [])

    def test_a_work_folder_that_stays_is_named_and_blocks_no_restore(self) -> None:
        made, target = self.made().data["file"], nowhere(self)
        full = mock.patch.object(shutil, "move", side_effect=OSError(ENOSPC, "No space left"))
        stuck = mock.patch.object(shutil, "rmtree", side_effect=OSError(EROFS, "Read-only"))
        with full, stuck:
            ran = self.ctl("backup", "restore", made, "--into", target)
        work = target / begun.WORK
        by_hand, why = ran.err.splitlines()
        warning = (
            f"svcctl: {work} cannot be removed: Read-only; to remove it yourself, run: rm -r {work}"
        )
        self.assertEqual(by_hand, warning)
        self.assertIn("No space left", why)
        self.assertEqual(self.ctl("backup", "restore", made, "--into", target).err, "")

    @proves("svcctl backup now|list|prove|restore")
    def test_a_restore_replaces_the_database_and_keeps_the_previous(self) -> None:
        file = self.made().data["file"]
        self.ctl("account", "create", "Later")
        ran = self.ctl("backup", "restore", file, "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(self.names(self.folder), {"Olga"})
        self.assertTrue(Path(ran.data["kept"]).is_file())

    @proves("svcctl backup: a damaged one is noticed")
    def test_damaged_backup_is_refused_and_found_by_the_next_night(self) -> None:
        file = Path(self.made("--prove").data["file"])
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        self.assertIn("nothing was changed", self.ctl("backup", "restore", file).line)
        with mock.patch("svcserver.ctl.backup.command.time.time", return_value=4e9):
            line = self.ctl("backup", "now").line
        self.assertIn("damaged", line)
        state = backups.read(self.folder)
        assert state is not None
        self.assertIn("damaged", state.wrong(4e9) or "")
        self.assertIsNone(state.kept[-1].proven)

    @proves("svcctl backup: 7 days, 4 weeks, 12 months")
    def test_old_backups_are_deleted_and_foreign_files_stay(self) -> None:
        self.stack_env("BACKUP_KEEP_DAYS=1", "BACKUP_KEEP_WEEKS=0", "BACKUP_KEEP_MONTHS=0")
        first = Path(self.made().data["file"])
        (first.parent / "mine.tar.gz").write_text("mine")
        with mock.patch("svcserver.ctl.backup.command.time.time", return_value=4e9):
            second = Path(self.made("--prove").data["file"])
        self.assertEqual((first.exists(), second.exists()), (False, True))
        self.assertTrue((first.parent / "mine.tar.gz").exists())
        self.assertEqual(len(self.ctl("backup", "list", "--json").data["backups"]), 1)
        self.assertEqual([*first.parent.glob(".making-*")], [])

    def test_a_failed_backup_prints_one_line_and_is_recorded(self) -> None:
        self.stack_env("BACKUP_SECRETS=1")
        self.assertIn("BACKUP_PASSPHRASE", self.ctl("backup", "now").line)
        listed = self.ctl("backup", "list", "--json").data
        self.assertIn("BACKUP_PASSPHRASE", listed["wrong"])
        self.stack_env("BACKUP_AT=noon")
        self.assertIn("must be off or a time of day", self.ctl("backup", "now").line)

    @proves("svcctl backup: one that dies in the middle is noticed")
    def test_only_a_killed_nightly_backup_is_reported_as_unfinished(self) -> None:
        class Killed(BaseException):
            """A simulated SIGKILL."""

        for dies, wrong in (
            (Killed, "did not finish"),
            (KeyboardInterrupt, None),
            (EndedBySignal, None),
        ):
            with (
                mock.patch("svcserver.ctl.backup.command.make", side_effect=dies),
                contextlib.suppress(Killed),
            ):
                self.ctl("backup", "nightly")
            fault = self.ctl("backup", "list", "--json").data["wrong"]
            self.assertTrue(fault is wrong or (wrong and wrong in fault), (dies, fault))
        self.made()
        self.assertIsNone(self.ctl("backup", "list", "--json").data["wrong"])

    def test_no_second_backup_begins_while_a_backup_runs(self) -> None:
        with backups.running(self.folder), mock.patch.object(command, "PAUSE_S", 0.0):
            self.assertIn("in progress", self.ctl("backup", "now").line)
            night = self.ctl("backup", "nightly")
        self.assertEqual(night.status, 0, night.err)
        self.assertFalse((self.folder / "backups").exists())

    def test_a_missing_backup_file_or_host_folder_is_an_error(self) -> None:
        self.assertIn("no backup yet", self.ctl("backup", "prove").line)
        missing = self.folder / "missing"
        self.assertIn("there is no backup", self.ctl("backup", "restore", missing).line)
        self.assertIn("the host's folder", svcctl("backup", "now", "--env-file", missing).line)
