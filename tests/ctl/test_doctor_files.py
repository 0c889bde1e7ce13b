"""The doctor's findings about certificates, files and databases. Spec: 2 §8."""

import errno
import itertools
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.doctor.case import Finding
from svcserver.ctl.doctor.machine import DiskSpace
from svcserver.ctl.doctor.reading import SHAPES
from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.migrations import revisions
from svcserver.edge.certificate import make_pair, write_pair
from svcserver.kernel.settings import BadSetting, load, variables
from tests.ctl.doctor_host import GB, DoctorCase, Quiet
from tests.support.postgres import fresh_database
from tests.support.proves import proves


class CertificateTests(DoctorCase):
    def write(self, *hosts: str, **options: Any) -> None:
        write_pair(make_pair(hosts, **options), self.folder, force=True)
        shown = self.ctl("cert", "fingerprint").out.strip()
        self.plant("relay", "SVC_RELAY_FINGERPRINT", shown)

    @proves("svcctl doctor")
    def test_validity_dates_are_checked(self) -> None:
        for days, fault, cure in (
            (-800, "the certificate expired on", "svcctl cert make"),
            (-350, "the certificate expires in", "svcctl cert make"),
            (30, "is not valid before", "clock"),
        ):
            self.write("203.0.113.10", now=datetime.now(UTC) + timedelta(days=days), years=1)
            self.finds(fault, cure)

    def test_a_certificate_with_the_wrong_key_is_a_fault(self) -> None:
        pair = make_pair(["203.0.113.10"])
        (self.folder / "gateway-key.pem").write_bytes(pair.key)
        self.finds("the key does not belong to the certificate", "the matching pair")

    def test_a_certificate_without_the_hosts_address_is_a_fault(self) -> None:
        self.write("other.example")
        self.finds("does not name 203.0.113.10", "svcctl cert make --host 203.0.113.10")
        self.plant("relay", "SVC_RELAY_HOST", "OTHER.example")
        self.assertEqual(self.wrong(), [])

    def test_missing_or_foreign_files_are_found(self) -> None:
        (self.folder / "gateway-cert.pem").write_text("no")
        self.finds("is not a PEM certificate", "svcctl cert make")
        (self.folder / "gateway-cert.pem").unlink()
        self.finds("the certificate cannot be read", "svcctl cert make")


BAD = (
    "",
    "x" * 300,
    "-1",
    "a b",
    "a; b",
    "http://h/path?x#y",
    "1,2,3",
    "../x",
    "https://[::1",
    "é",
)


class SettingTests(SynchronousTestCase):
    def test_the_fix_of_a_bad_setting_names_its_file_or_a_command(self) -> None:
        fixes = set()
        for name, shapes in SHAPES.items():
            for shape in shapes:
                for variable, text in itertools.product(variables(shape), BAD):
                    try:
                        load(shape, {variable: text})
                    except BadSetting as why:
                        fixes.add(Finding.from_message(name, str(why), "correct it in FILE").cure)
        command = "To print the value, run: svcctl cert fingerprint"
        self.assertEqual(fixes, {"correct it in FILE", "give it a value", command})


class FileTests(DoctorCase):
    def test_secret_files_that_others_can_read_are_a_fault(self) -> None:
        for name in ("metagame.env", "gateway-key.pem", "owner.key", "svc.db"):
            (self.folder / name).chmod(0o640)
            self.finds(f"{name} can be read by others (mode 0640)", f"chmod 600 {self.folder}")
            (self.folder / name).chmod(0o600)

    def test_a_game_server_without_the_execute_bit_is_a_fault(self) -> None:
        program = self.folder / "server.sh"
        program.write_text("#!/bin/sh\n")
        self.plant("deploy", "GAMESERVER_BINARY_PATH", str(program))
        program.chmod(0o600)
        # also if the test runs as root
        with mock.patch("svcserver.ctl.doctor.files.may_run", return_value=False):
            self.finds("cannot be run", f"chmod +x {program}")
        program.chmod(0o700)
        self.assertEqual(self.wrong(), [])

    def test_a_game_server_out_of_reach_hides_nothing_else(self) -> None:
        (self.folder / "owner.key").chmod(0o640)
        barred = PermissionError(errno.EACCES, "Permission denied", "/root/server.sh")
        with mock.patch("svcserver.ctl.doctor.files.may_run", side_effect=barred):
            findings = " ".join(map(str, self.wrong()))
        self.assertIn("/root/server.sh: ", findings)
        self.assertIn("owner.key can be read by others", findings)

    def test_a_windows_game_server_without_a_launcher_is_a_fault(self) -> None:
        program = self.folder / "server.exe"
        program.write_bytes(b"MZ\x90")
        program.chmod(0o700)
        self.plant("deploy", "GAMESERVER_BINARY_PATH", "server.exe")
        machine = Quiet(broken={str(program): OSError(errno.ENOEXEC, "Exec format error")})
        self.finds("is a Windows program", "set GAMESERVER_LAUNCHER", machine)
        program.chmod(0o600)
        # a program on PATH need not pass the check
        self.plant("deploy", "GAMESERVER_LAUNCHER", "env -i")
        self.assertEqual(self.wrong(machine), [])

    def test_a_launcher_that_cannot_be_executed_is_a_fault(self) -> None:
        launcher = self.folder / "run"
        launcher.write_text("#!/none/sh\n")
        launcher.chmod(0o700)
        self.plant("deploy", "GAMESERVER_LAUNCHER", f"{launcher} --fast")
        machine = Quiet(broken={str(launcher): OSError(errno.ENOENT, "No such file")})
        self.finds("GAMESERVER_LAUNCHER", "install it", machine)

    def test_a_missing_launcher_of_game_servers_is_a_fault(self) -> None:
        for word in ("/nowhere/run", "no-such-launcher"):
            self.plant("deploy", "GAMESERVER_LAUNCHER", f"{word} --fast")
            self.finds(f"GAMESERVER_LAUNCHER starts with {word}", "remove the setting")
        self.plant("deploy", "GAMESERVER_LAUNCHER", "env -i")  # env is found on PATH
        self.assertEqual(self.wrong(), [])

    def test_a_missing_folder_of_game_files_is_a_fault(self) -> None:
        shutil.rmtree(self.folder / "game")
        self.finds("CONTENT_GAME_DIR must be a folder that exists", "correct it in")

    def test_a_missing_or_broken_manifest_is_a_fault(self) -> None:
        (self.folder / "manifest.json").unlink()
        self.finds("manifest.json cannot be read", "svcctl content manifest")
        (self.folder / "manifest.json").write_text("{")
        self.finds("manifest.json is", "svcctl content manifest")

    def test_changed_or_missing_game_files_are_a_fault(self) -> None:
        (self.folder / "game" / "README.txt").write_text("another length")
        self.finds("README.txt does not match the manifest", "svcctl content manifest")
        (self.folder / "game" / "README.txt").unlink()
        self.finds("README.txt is in the manifest, but does not exist", "svcctl content manifest")


class ProgramTests(DoctorCase):
    def setUp(self) -> None:
        super().setUp()
        game = self.folder / "game"
        (game / "Game").mkdir()
        (game / "Game" / "Hunt.exe").write_bytes(b"MZ")
        self.ctl("content", "manifest")

    def test_a_game_program_missing_from_the_manifest_is_a_fault(self) -> None:
        self.assertIn("launchers start game.exe, which is not in the manifest", self.notes())
        self.plant("content", "CONTENT_GAME_PROGRAM", "Game/hunt.exe")
        self.finds("CONTENT_GAME_PROGRAM is Game/hunt.exe, which is not in", "as listed in the man")
        self.plant("content", "CONTENT_GAME_PROGRAM", "../Hunt.exe")
        self.finds("CONTENT_GAME_PROGRAM must be a path", "correct it in")
        self.plant("content", "CONTENT_GAME_PROGRAM", "Game/Hunt.exe")
        self.assertEqual(self.wrong(), [])
        self.assertNotIn("game.exe", self.notes())


class DatabaseTests(DoctorCase):
    def test_a_missing_database_is_reported_and_not_created(self) -> None:
        (self.folder / "svc.db").unlink()
        lines = self.wrong()
        self.assertIn("there is no database", lines[0])
        self.assertIn("svcctl db upgrade", lines[0])
        self.assertFalse((self.folder / "svc.db").exists())

    def test_a_damaged_database_is_reported_with_db_restore(self) -> None:
        file = self.folder / "svc.db"
        file.write_bytes(file.read_bytes()[:40_000] + b"\xee" * 40_000)
        lines = self.wrong()
        self.assertIn("is damaged", lines[0])
        self.assertIn("svcctl db restore", lines[0])

    @proves("svcctl doctor")
    def test_an_outdated_database_is_reported_with_db_upgrade(self) -> None:
        (self.folder / "svc.db").unlink()
        os.close(os.open(self.folder / "svc.db", os.O_CREAT | os.O_WRONLY, 0o600))
        engine = make_engine(database_url(f"sqlite:///{self.folder / 'svc.db'}"))
        migrations.upgrade(engine, revisions.known()[0])
        engine.dispose()
        self.finds("this version needs", "svcctl db upgrade")

    def test_a_separate_database_disk_below_the_reserve_is_a_fault(self) -> None:
        elsewhere = self.folder / "disk"
        elsewhere.mkdir()
        (self.folder / "svc.db").rename(elsewhere / "svc.db")
        self.plant("metagame", "DATABASE_URL", f"sqlite:///{elsewhere / 'svc.db'}")
        self.plant("metagame", "DISK_RESERVE_MB", "1048576")
        roomy = Quiet(disk=DiskSpace(4096 * GB, 2048 * GB))
        self.assertEqual(self.wrong(roomy), [])
        lines = self.wrong(Quiet(disk=DiskSpace(4096 * GB, 512 * GB)))
        self.assertTrue(any("nothing is saved" in line and "make room" in line for line in lines))

    def test_a_dangling_link_to_the_database_is_a_fault(self) -> None:
        (self.folder / "svc.db").rename(self.folder / "away.db")
        (self.folder / "svc.db").symlink_to(self.folder / "disk" / "svc.db")
        self.finds("is a link to", "is the disk of that file mounted?")

    def test_a_database_file_that_is_not_sqlite_is_a_fault(self) -> None:
        self.plant("metagame", "DATABASE_URL", f"sqlite:///{self.folder / 'stack.json'}")
        (self.folder / "stack.json").write_text("{" + " " * 100 + "}")
        (self.folder / "stack.json").chmod(0o600)
        self.finds("does not begin like an SQLite database", "correct DATABASE_URL; if it is")

    def test_a_row_that_refers_to_nothing_is_mended_by_hand(self) -> None:
        with closing(sqlite3.connect(self.folder / "svc.db")) as database:
            database.execute("PRAGMA foreign_keys=OFF")
            database.execute("CREATE TABLE mine(account TEXT REFERENCES accounts(id))")
            database.execute("INSERT INTO mine VALUES ('nobody')")
            database.commit()
        self.finds(
            "row 1 of mine refers to a row that does not exist", "changed the database by hand"
        )

    def test_an_empty_database_is_reported_with_its_remedy(self) -> None:
        self.plant("metagame", "DATABASE_URL", f"sqlite:///{self.folder / 'new.db'}")
        os.close(os.open(self.folder / "new.db", os.O_CREAT | os.O_WRONLY, 0o600))
        self.finds("the database is empty", "restore a backup; otherwise run svcctl db upgrade")

    def test_a_database_of_a_newer_version_is_a_fault(self) -> None:
        with closing(sqlite3.connect(self.folder / "svc.db")) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
            database.execute("ALTER TABLE accounts RENAME COLUMN notes TO coins")
            database.commit()
        self.finds("9999 is newer than this version", "install the newer version")

    @pytest.mark.live
    def test_more_connections_than_postgresql_allows_are_a_fault(self) -> None:
        where = fresh_database()
        engine = make_engine(database_url(where))
        migrations.upgrade(engine)
        engine.dispose()
        self.plant("metagame", "DATABASE_URL", where)
        self.assertFalse(any("max_connections" in finding for finding in self.wrong()))
        each = "100"  # the most of a metagame; the tests' PostgreSQL allows 500
        self.plant("metagame", "DATABASE_CONNECTIONS", each)
        self.plant("metagame", "LIVE_URL", "valkey://127.0.0.1:1")
        for workers, too_many in ((1, False), (5, True)):
            (self.folder / "stack.env").write_text(f"WORKERS={workers}\n")
            lines = [finding for finding in self.wrong() if "max_connections" in finding]
            self.assertEqual(bool(lines), too_many)
        self.assertIn(f"5 times DATABASE_CONNECTIONS={each}", lines[0])

    @pytest.mark.live
    def test_a_database_in_the_encoding_sql_ascii_is_a_fault(self) -> None:
        where = fresh_database("TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
        self.plant("metagame", "DATABASE_URL", where)
        [line] = [finding for finding in self.wrong() if "encoding" in finding]
        self.assertIn("its encoding is SQL_ASCII", line)

    def test_each_bad_line_of_the_stack_is_found(self) -> None:
        for line, fault, cure in (
            ("WORKERS=2", "WORKERS=2: DATABASE_URL in metagame.env is SQLite", "et a postgresql"),
            ("WORKERS=many", "WORKERS must be a whole number", "correct stack.env"),
            ("BACKUP_AT=teatime", "BACKUP_AT must be off or a time of day", "correct stack.env"),
            ("ALERTS_EVERY_SECONDS=1", "ALERTS_EVERY_SECONDS must be", "correct stack.env"),
        ):
            (self.folder / "stack.env").write_text(f"{line}\n")
            self.finds(fault, cure)

    def test_an_invalid_alert_channel_is_a_note(self) -> None:
        (self.folder / "alert-phone.env").write_text("FORM=pigeon\nURL=https://x\n")
        self.assertEqual(self.wrong(), [])
        self.assertIn("alerts: alert-phone.env: FORM must be", self.notes())

    def test_an_unreachable_database_is_a_fault_and_shows_no_password(self) -> None:
        self.plant("metagame", "DATABASE_URL", "postgresql://u:hidden@127.0.0.1:1/x")
        [line] = self.wrong()
        self.assertIn("database: the database cannot be used", line)
        self.assertIn("is PostgreSQL running?", line)
        self.assertNotIn("hidden", line)

    @pytest.mark.live
    def test_an_empty_postgresql_database_is_a_fault(self) -> None:
        self.plant("metagame", "DATABASE_URL", fresh_database())
        self.finds("the database is empty", "svcctl db upgrade")

    def test_an_owner_key_of_no_account_is_a_fault(self) -> None:
        (self.folder / "owner.key").write_text("UUK_x\n")
        self.finds("is not the key of an account", "svcctl account create")

    def test_no_admin_is_a_note(self) -> None:
        with closing(sqlite3.connect(self.folder / "svc.db")) as database, database:
            # svcctl itself never removes the last owner
            database.execute("UPDATE accounts SET is_admin = 0")
        self.assertEqual(self.wrong(), [])
        self.assertIn("no account is an owner", self.notes())
