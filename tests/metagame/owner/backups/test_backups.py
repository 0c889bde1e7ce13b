"""Backups on the dashboard: the list, a backup on request, the schedule, and the download."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from twisted.internet.defer import Deferred

from svcserver.kernel import backups, host_state
from svcserver.kernel.backups import Backup, Backups, BackupStep
from svcserver.kernel.host_state import HostState
from svcserver.kernel.recent import RECENT
from svcserver.kernel.settings import parse_env_file
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.dashboard_access import (
    DashboardAccess,
    SqlDashboardAccess,
    new_factor,
)
from svcserver.metagame.owner import backups as backup_module
from svcserver.metagame.owner.backups import ScheduleRequest
from tests.metagame.owner.moderation.test_moderation import StaffCase
from tests.support.browser import Page
from tests.support.game import START
from tests.support.isolates import isolates
from tests.support.proves import proves

LISTED, NOW = "/svc/api/DashboardBackups", "/svc/api/DashboardBackup"
SCHEDULE, DOWNLOAD = f"{NOW}Schedule", f"{NOW}Download"
NAME = "svc-backup-20261122-040000.tar.gz"
DAILY = {"At": "03:30", "Days": 3, "Weeks": 2, "Months": 0}


class BackupCase(StaffCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.acts = self.game.parts.desk.backups
        self.acts.folder = self.folder
        self.game.parts.desk.maintenance.folder = self.folder
        self.game.parts.desk.dashboard.folder = self.folder
        self.file = self.folder / NAME
        self.file.write_bytes(b"backup" * 1000)
        self.backup = Backup(str(self.file), START - 60, 6000, "ab", proven=START - 30)
        backups.write(self.folder, Backups([self.backup], START))

    def stack(self) -> None:
        """Write a log line, as a running stack does."""
        (self.folder / RECENT).write_text("stack ready\n")
        os.utime(self.folder / RECENT, (START, START))

    def listed(self, key: str = "") -> Page:
        return self.game.browse("GET", LISTED, key=key or self.olga.key)

    def post(self, path: str, body: Mapping[str, object], key: str = "", **headers: str) -> Page:
        return self.game.browse("POST", path, json=body, key=key or self.olga.key, headers=headers)


class BackupTests(BackupCase):
    @proves("GET DashboardBackups")
    def test_the_list_shows_backups_schedule_and_restore_command(self) -> None:
        reply = self.listed().json
        [shown] = reply["backups"]
        self.assertEqual((shown["name"], shown["bytes"], shown["fault"]), (NAME, 6000, None))
        self.assertLess(shown["madeAt"], shown["provenAt"])
        restore = f"svcctl backup restore {self.file} --stop --config {self.folder}"
        self.assertEqual(shown["restore"], restore)
        schedule = reply["schedule"]
        self.assertEqual(
            (schedule["at"], schedule["days"], schedule["encrypted"]), ("04:00", 7, False)
        )
        self.assertEqual((reply["stack"], reply["running"], reply["wrong"]), (False, None, None))

    def test_the_list_is_for_owners_alone_and_shows_no_secret(self) -> None:
        self.assertEqual(self.listed(self.mod.key).status, 403)
        lines = "BACKUP_PASSPHRASE=correct horse\nBACKUP_AT=off\n"
        (self.folder / "stack.env").write_text(lines)
        page = self.listed()
        self.assertNotIn(b"horse", page.body)
        self.assertEqual(
            (page.json["schedule"]["encrypted"], page.json["schedule"]["at"]), (True, "off")
        )
        (self.folder / "stack.env").write_text("BACKUP_AT=late\n")
        page = self.listed()
        self.assertIn("BACKUP_AT must be", page.json["badSettings"])
        self.assertEqual((page.json["schedule"], len(page.json["backups"])), (None, 1))

    def test_odd_names_in_the_restore_command_are_quoted(self) -> None:
        odd = Backup("/b/$(rm -rf)/a b.tar.gz.age", START, 5, "ab", encrypted=True)
        backups.write(self.folder, Backups([odd], START))
        (self.folder / "stack.env").write_text("BACKUP_RECIPIENTS=age1x\n")
        command = self.listed().json["backups"][0]["restore"]
        self.assertIn("'/b/$(rm -rf)/a b.tar.gz.age'", command)
        self.assertIn("--identity KEY-FILE", command)

    @proves("POST DashboardBackup")
    def test_a_backup_is_requested_from_the_stack_and_shows_its_step(self) -> None:
        page = self.post(NOW, {})
        self.assertEqual((page.status, page.json["error"]), (409, "no_stack"))
        self.stack()
        page = self.post(NOW, {"Reason": "before the update"})
        self.assertEqual(page.status, 200)
        self.assertTrue((self.folder / backups.REQUEST_FILE).exists())
        os.utime(self.folder / backups.REQUEST_FILE, (START, START))
        self.assertTrue(self.listed().json["requested"])
        self.assertTrue(backups.take_request(self.folder, START))
        with backups.running(self.folder):
            state = Backups([self.backup], START, begun=START, step=BackupStep.TEST.value)
            backups.write(self.folder, state)
            self.assertEqual(self.listed().json["running"]["step"], "test")
            self.assertEqual(self.post(NOW, {}).json["error"], "running")
        self.assertIsNone(self.listed().json["running"])  # it was killed
        self.assertEqual(self.post(NOW, {}, self.mod.key).status, 403)

    @proves("POST DashboardBackupSchedule")
    def test_schedule_and_retention_are_written_to_the_env_file(self) -> None:
        file = self.folder / "stack.env"
        file.write_text("# mine\nWORKERS=2\nBACKUP_AT=04:00\n")
        page = self.post(SCHEDULE, DAILY)
        schedule = page.json["schedule"]
        self.assertEqual((page.status, schedule["at"]), (200, "03:30"))
        self.assertEqual(set(schedule["sources"].values()), {"file"})
        lines = parse_env_file(file.read_text())
        self.assertEqual((lines["WORKERS"], lines["BACKUP_AT"]), ("2", "03:30"))
        self.assertEqual(lines["BACKUP_KEEP_MONTHS"], "0")
        self.assertIn("# mine", file.read_text())
        row = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json["rows"][0]
        self.assertEqual((row["before"]["at"], row["after"]["at"]), ("04:00", "03:30"))
        self.assertEqual(self.post(SCHEDULE, {**DAILY, "At": "off"}).json["schedule"]["at"], "off")

    @proves("POST DashboardBackupSchedule")
    def test_a_crash_after_the_file_changed_leaves_an_audit_row(self) -> None:
        change = backup_module.change

        def crash(path: Path, lines: Mapping[str, str]) -> None:
            change(path, lines)
            raise ZeroDivisionError

        self.patch(backup_module, "change", crash)
        schedule = self.acts.schedule("Olga", ScheduleRequest("03:30", 3, 2, 0), proven=True)
        self.failureResultOf(Deferred.fromCoroutine(schedule), ZeroDivisionError)
        self.assertIn("BACKUP_AT=03:30", (self.folder / "stack.env").read_text())
        rows = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json["rows"]
        self.assertEqual({row["action"] for row in rows[:2]}, {"backup schedule"})
        self.assertEqual(rows[1]["after"], {"begun": True})

    @proves("POST DashboardBackupSchedule")
    def test_a_bad_schedule_is_refused_and_changes_nothing(self) -> None:
        for change in ({"At": "25:00"}, {"At": "1\n:00"}, {"Days": 0}, {"Weeks": -1}):
            self.assertEqual(self.post(SCHEDULE, {**DAILY, **change}).status, 400, change)
        self.assertFalse((self.folder / "stack.env").exists())
        self.assertEqual(self.post(SCHEDULE, DAILY, self.mod.key).status, 403)
        self.assertEqual(self.post(SCHEDULE, DAILY).status, 200)
        self.assertEqual((self.folder / "stack.env").stat().st_mode & 0o777, 0o600)
        self.game.parts.desk.dashboard.folder = None
        self.assertEqual(self.post(SCHEDULE, DAILY).status, 409)

    def sign_in(self) -> dict[str, str]:
        """Return the headers of a dashboard session of Olga."""
        page = self.game.browse(
            "POST", "/svc/api/DashboardSession", key=self.olga.key, headers={"x-svc-dashboard": "1"}
        )
        cookie = page.headers["set-cookie"].partition(";")[0]
        return {"Cookie": cookie, "x-svc-dashboard": page.json["Word"]}

    @proves("POST DashboardBackupSchedule")
    def test_fewer_or_no_backups_need_key_and_second_factor(self) -> None:
        session = self.sign_in()
        change = {"At": "04:00", "Days": 7, "Weeks": 4, "Months": 12}

        def send(more: Mapping[str, object], **headers: str) -> Page:
            sent = {**change, **more}
            return self.game.browse("POST", SCHEDULE, json=sent, headers=session | headers)

        self.assertEqual(send({"Days": 9}).status, 200)
        more = {"Days": 9}
        for fewer in ({"Days": 8}, more | {"Weeks": 3}, more | {"Months": 0}, more | {"At": "off"}):
            page = send(fewer)
            self.assertEqual((page.status, page.json["error"]), (401, "key_wanted"), fewer)
        self.assertIn("BACKUP_KEEP_DAYS=9", (self.folder / "stack.env").read_text())
        key = {"x-svc-user-api-key": self.olga.key}
        self.assertEqual(send({"Days": 8, "At": "off"}, **key).status, 200)
        self.assertEqual(send({"Days": 8, "At": "off"}).status, 200)  # as before
        factor = new_factor()
        self.game.ledger.run(
            lambda tx: SqlDashboardAccess(tx).put(DashboardAccess(self.olga.id, factor=factor))
        )
        page = send({"Days": 8}, **key)
        self.assertEqual((page.status, page.json["error"]), (401, "second_factor"))
        codes = TOTP(base64.b32decode(factor), 6, SHA1(), 30)  # noqa: S303 - RFC 6238
        code = codes.generate(int(self.game.clock.seconds())).decode()
        self.assertEqual(send({"Days": 2}, **key, **{"x-svc-second-factor": code}).status, 200)

    @proves("GET DashboardBackups", "POST DashboardBackupSchedule")
    def test_the_environment_of_the_stack_overrides_its_file(self) -> None:
        (self.folder / "stack.env").write_text("BACKUP_AT=03:00\nBACKUP_KEEP_DAYS=9\n")
        environment = {"BACKUP_AT": "05:00", "BACKUP_PASSPHRASE": None}
        host_state.write(self.folder, HostState(START, environment=environment))
        schedule = self.listed().json["schedule"]
        self.assertEqual(
            (schedule["at"], schedule["days"], schedule["encrypted"]), ("05:00", 9, True)
        )
        sources = {"at": "environment", "days": "file", "weeks": "default", "months": "default"}
        self.assertEqual(schedule["sources"], sources)
        change = {"At": "05:00", "Days": 10, "Weeks": 4, "Months": 12}
        self.assertEqual(self.post(SCHEDULE, change).status, 200)
        self.assertIn("BACKUP_AT=03:00", (self.folder / "stack.env").read_text())
        page = self.post(SCHEDULE, {**change, "At": "06:00"})
        self.assertEqual((page.status, page.json["error"]), (409, "environment"))
        self.assertIn("BACKUP_AT is set in the environment", page.json["message"])
        self.game.clock.advance(host_state.FRESH_S + 1)  # the stack has stopped
        self.assertEqual(self.listed().json["schedule"]["at"], "03:00")

    @isolates("accounts/audit: with_file")
    @proves("POST DashboardBackupSchedule")
    def test_a_schedule_changed_meanwhile_is_refused(self) -> None:
        mark = self.listed().json["schedule"]["mark"]
        self.assertEqual(self.post(SCHEDULE, {**DAILY, "Mark": mark}).status, 200)
        page = self.post(SCHEDULE, {**DAILY, "Days": 5, "Mark": mark})
        self.assertEqual((page.status, page.json["error"]), (409, "changed"))

    @proves("GET DashboardBackups", "POST DashboardBackup")
    def test_a_request_that_no_stack_takes_is_shown(self) -> None:
        self.stack()
        file = self.folder / backups.REQUEST_FILE
        self.assertEqual(self.post(NOW, {}).status, 200)
        os.utime(file, (START, START))
        reply = self.listed().json
        self.assertEqual((reply["requested"], reply["notTaken"]), (True, None))
        for seconds in (backups.TAKEN_S + 1, 3_600):
            self.game.clock.advance(seconds)
            reply = self.listed().json
            self.assertEqual((reply["requested"], reply["notTaken"]), (False, iso(START)))
        backups.write(self.folder, Backups([self.backup], START + 60))  # by svcctl backup now
        self.assertIsNone(self.listed().json["notTaken"])
        os.utime(file, (START + 90, START + 90))
        self.assertIsNotNone(self.listed().json["notTaken"])
        self.assertFalse(backups.take_request(self.folder, self.game.clock.seconds()))
        self.assertIsNone(self.listed().json["notTaken"])


class DownloadTests(BackupCase):
    @proves("POST DashboardBackupDownload")
    def test_a_backup_is_downloaded_and_recorded(self) -> None:
        page = self.post(DOWNLOAD, {"Name": NAME, "Reason": "off-site"})
        self.assertEqual((page.status, page.body), (200, self.file.read_bytes()))
        self.assertEqual(page.headers["content-type"], "application/octet-stream")
        row = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json["rows"][0]
        self.assertEqual(
            (row["action"], row["target"], row["reason"]), ("download backup", NAME, "off-site")
        )

    @proves("POST DashboardBackupDownload")
    def test_only_listed_backups_are_sent(self) -> None:
        (self.folder / "other.tar.gz").write_text("secret")
        for name in ("other.tar.gz", "../metagame.env", str(self.file), "stack.env"):
            self.assertEqual(self.post(DOWNLOAD, {"Name": name}).status, 404, name)
        self.file.unlink()
        self.assertEqual(self.post(DOWNLOAD, {"Name": NAME}).status, 409)

    @proves("POST DashboardBackupDownload")
    def test_a_download_needs_the_key_and_the_second_factor(self) -> None:
        self.assertEqual(self.post(DOWNLOAD, {"Name": NAME}, self.mod.key).status, 403)
        page = self.game.browse(
            "POST", "/svc/api/DashboardSession", key=self.olga.key, headers={"x-svc-dashboard": "1"}
        )
        session = {
            "Cookie": page.headers["set-cookie"].partition(";")[0],
            "x-svc-dashboard": page.json["Word"],
        }
        page = self.game.browse("POST", DOWNLOAD, json={"Name": NAME}, headers=session)
        self.assertEqual((page.status, page.json["error"]), (401, "key_wanted"))
        factor = new_factor()
        self.game.ledger.run(
            lambda tx: SqlDashboardAccess(tx).put(DashboardAccess(self.olga.id, factor=factor))
        )
        page = self.post(DOWNLOAD, {"Name": NAME})
        self.assertEqual((page.status, page.json["error"]), (401, "second_factor"))
        codes = TOTP(base64.b32decode(factor), 6, SHA1(), 30)  # noqa: S303 - RFC 6238
        code = codes.generate(int(self.game.clock.seconds()))
        headers = {"x-svc-second-factor": code.decode()}
        self.assertEqual(self.post(DOWNLOAD, {"Name": NAME}, **headers).status, 200)
        self.assertEqual(self.post(DOWNLOAD, {"Name": NAME}, **headers).status, 401)  # used
