"""Audit rows for actions that ``svcctl`` performs outside the database."""

import contextlib
import json
import time
from typing import Any
from unittest import mock

import click

from svcserver.ctl import alerts as alert_commands
from svcserver.ctl.host import Host
from svcserver.ctl.noting import noted
from svcserver.ctl.passports import MAX_FILE
from svcserver.ctl.stopping import EndedBySignal
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.owner.passports.rules import Terms
from svcserver.metagame.owner.settings.store import SqlSettings
from svcserver.stack.alerts.delivering import NotDelivered
from tests.ctl.command import Ran, database_of, svcctl
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves


class NotingTests(HostCase):
    def rows(self) -> list[dict[str, Any]]:
        ran: Ran = self.ctl("audit", "--json", "--since", "1h")
        self.assertEqual(ran.status, 0, ran.err)
        return [json.loads(line) for line in ran.out.splitlines()]

    def did(self, action: str, *words: object, target: str = "") -> dict[str, Any]:
        """Run a command that succeeds; return its audit row."""
        return self.row(action, 0, *words, target=target)

    def tried(self, action: str, *words: object, target: str = "") -> str:
        """Run a command that is rejected; return the reason, which is also its error message."""
        ran = self.ctl(*words)
        newest = self.row(action, 1, *words, target=target)
        self.assertEqual(ran.line, f"svcctl: {' '.join(newest['refused'].split())}"[:264])
        return str(newest["refused"])

    def row(self, action: str, status: int, *words: object, target: str = "") -> dict[str, Any]:
        before = len(self.rows())
        ran = self.ctl(*words, "--json")
        self.assertEqual(ran.status, status, ran.err)
        newest, *rest = self.rows()
        self.assertEqual(len(rest), before)
        self.assertEqual((newest["action"], newest["target"]), (action, target))
        self.assertTrue(newest["actor"].startswith("svcctl"))
        self.assertEqual(newest["refused"] is None, status == 0)
        return newest

    @proves("every act of staff and every refused try is in the audit log")
    def test_rotated_and_retired_keys_are_audited(self) -> None:
        row = self.did("rotate keys", "keys", "rotate", "--reason", "one was seen")
        self.assertEqual(row["reason"], "one was seen")
        self.assertNotEqual(row["before"], row["after"])
        signing = self.ctl("keys", "list", "--json").data["signing"]
        self.assertEqual(row["after"], {"signing": signing})
        self.assertIn(
            "To retire the old key at once, use --now", self.tried("retire keys", "keys", "retire")
        )
        self.assertEqual(self.did("retire keys", "keys", "retire", "--now")["after"]["further"], 0)
        self.assertIn("no old key", self.tried("retire keys", "keys", "retire"))

    @proves("every act of staff and every refused try is in the audit log")
    def test_an_interrupted_command_is_audited_as_possibly_partial(self) -> None:
        host = Host(self.folder)
        for why, word in (
            (KeyboardInterrupt, "called off"),
            (click.Abort, "called off"),
            (EndedBySignal, "called off"),
            (OSError, "failed"),
            (ZeroDivisionError, "failed"),
        ):
            with self.assertRaises(why), noted(host, "restart", reason="new version") as trace:
                trace.before, trace.after = {"was": 1}, {"fingerprint": "f"}
                raise why
            newest = self.rows()[0]
            self.assertEqual((newest["action"], newest["reason"]), ("restart", "new version"))
            outcome = f"{word}: part of it may have been done"
            self.assertEqual(newest["after"], {"fingerprint": "f", "outcome": outcome})
            self.assertEqual((newest["before"], newest["refused"]), ({"was": 1}, None))
            self.assertIn(outcome, self.ctl("audit", "--count", "1").out)

    @proves("every act of staff and every refused try is in the audit log")
    def test_a_command_refused_before_it_starts_is_audited(self) -> None:
        add = ("alerts", "add", "phone", "--form", "json")
        self.assertIn("URL is missing", self.tried("add alerts", *add, target="phone"))
        away = ("--from", self.folder / "none")
        self.assertIn("cannot be read", self.tried("add alerts", *add, *away, target="phone"))
        self.did("make certificate", "cert", "make", "--host", "203.0.113.10")
        again = ("cert", "make", "--host", "203.0.113.10")
        self.assertIn("is already prepared", self.tried("make certificate", *again))
        self.assertIn("no backup yet", self.tried("prove backup", "backup", "prove"))

    @proves("every act of staff and every refused try is in the audit log")
    def test_refused_passport_commands_are_audited(self) -> None:
        for way in ("trust", "distrust"):
            why = self.tried(f"passport {way}", "passport", way, "c2VjcmV0")
            self.assertIn("64 hex characters", why)
            self.assertNotIn("c2VjcmV0", str(self.rows()))
        key, long = "0" * 64, ("--name", "x" * 65)
        why = self.tried("passport trust", "passport", "trust", key, *long, target=key)
        self.assertIn("at most 64", why)
        file = self.folder / "ann.json"
        file.write_text("{}")
        words = ("passport", "import", file, "Olga")
        self.assertIn("ann.json: ", self.tried("passport import", *words, target="Olga"))
        file.write_bytes(b" " * (MAX_FILE + 1))
        self.assertIn("is too large", self.tried("passport import", *words, target="Olga"))

    @proves("POST DashboardSetting")
    def test_a_passport_import_has_the_limits_of_the_settings_page(self) -> None:
        with database_of(self.folder) as tx:
            SqlSettings(tx).put("INVENTORY_MAX_ITEMS", "7", "Olga", 0.0)
        (self.folder / "ann.json").write_text("{}")
        limits = []

        def take_in(_: object, __: object, ___: object, terms: Terms, ____: object) -> None:
            limits.append(terms.policy.most.items)
            raise Malformed("enough")

        with (
            mock.patch("svcserver.ctl.passports._unsealed"),
            mock.patch("svcserver.ctl.passports.take_in", take_in),
            contextlib.suppress(Malformed),
        ):
            self.ctl("passport", "import", self.folder / "ann.json", "Olga")
        self.assertEqual(limits, [7])

    @proves("every act of staff and every refused try is in the audit log")
    def test_added_and_tested_alert_channels_are_audited(self) -> None:
        add = ("alerts", "add", "phone", "--form", "json", "--url", "https://203.0.113.9/x")
        row = self.did("add alerts", *add, target="phone")
        public = {"form": "json", "url": "set", "signing_secret": "set"}
        self.assertEqual(row["after"], public)
        self.tried("add alerts", *add, target="phone")
        with mock.patch.object(alert_commands, "deliver"):
            self.did("test alerts", "alerts", "test", "phone", target="phone")
        away = NotDelivered("it does not answer", again=True)
        with mock.patch.object(alert_commands, "deliver", side_effect=away):
            self.tried("test alerts", "alerts", "test", "phone", target="phone")
        self.tried("test alerts", "alerts", "test", "nobody", target="nobody")

    @proves("every act of staff and every refused try is in the audit log")
    def test_database_backups_and_restores_are_audited(self) -> None:
        copy = self.folder / "copy.db"
        self.did("backup", "db", "backup", copy, target="copy.db")
        self.tried("backup", "db", "backup", copy, target="copy.db")
        self.ctl("account", "create", "Alpha")
        self.ctl("db", "restore", copy)
        self.assertNotIn("Alpha", self.accounts())
        [row] = self.rows()[:1]  # older rows are in the previous database, which was kept
        self.assertEqual((row["action"], row["target"]), ("restore", "copy.db"))
        (self.folder / "bad").write_bytes(b"no database")
        for what in ("db", "backup"):
            self.tried("restore", what, "restore", self.folder / "bad", target="bad")
            self.tried("restore", what, "restore", self.folder / "none", target="none")
        self.did("upgrade database", "db", "upgrade")

    @proves("every act of staff and every refused try is in the audit log")
    def test_a_restore_that_is_not_upgraded_is_in_place(self) -> None:
        copy = self.folder / "copy.db"
        self.did("backup", "db", "backup", copy, target="copy.db")
        file = self.ctl("backup", "now", "--json").data["file"]
        for what, source in (("db", copy), ("backup", file)):
            for why, message in (
                (BadDatabase("the disk is full"), r"svcctl db upgrade: the disk is full$"),
                (
                    EndedBySignal(143),
                    "^svcctl: the restore was stopped; .* To continue, run svcctl db upgrade$",
                ),
            ):
                self.ctl("account", "create", "Alpha")
                with (
                    mock.patch.object(migrations, "upgrade", side_effect=why),
                    mock.patch.object(time, "strftime", return_value=f"{what}-{type(why)}"),
                ):
                    ran = self.ctl(what, "restore", source)
                self.assertEqual(ran.status, 1)
                self.assertRegex(ran.line, message)
                [previous] = self.folder.glob(f"svc.db.before-restore-{what}-{type(why)}")
                self.assertIn(f"run svcctl db restore {previous}", ran.line)
                self.assertNotIn("Alpha", self.accounts())
                newest = self.rows()[0]
                self.assertEqual((newest["action"], newest["refused"]), ("restore", None))
                outcome = "upgrade failed: the backup's data is in place"
                self.assertEqual(newest["after"], {"outcome": outcome})
                self.did("upgrade database", "db", "upgrade")

    @proves("every act of staff and every refused try is in the audit log")
    def test_backups_and_restores_of_a_whole_host_are_audited(self) -> None:
        made = self.ctl("backup", "now", "--json").data["file"]
        [row] = self.rows()[:1]
        self.assertEqual((row["action"], row["target"]), ("backup", made.rpartition("/")[2]))
        target = self.folder.parent / "other"
        ran = svcctl("backup", "restore", made, "--into", target, "--config", self.folder)
        self.assertEqual((ran.status, ran.err), (0, ""))
        ran = svcctl("audit", "--json", "--count", "1", "--config", target)
        self.assertEqual(json.loads(ran.out)["action"], "restore")
        self.tried("prove backup", "backup", "prove", self.folder / "none", target="none")

    @proves("every act of staff and every refused try is in the audit log")
    def test_certificate_changes_and_a_refused_restart_are_audited(self) -> None:
        made = self.did("make certificate", "cert", "make", "--host", "203.0.113.10")
        self.assertTrue(made["after"]["next"])
        row = self.did("switch certificate", "cert", "switch")
        self.assertEqual(row["after"], {"fingerprint": made["after"]["fingerprint"]})
        self.assertIn("no svc-stack", self.tried("restart", "restart", "--rolling"))

    def test_without_a_database_an_act_works_and_warns_of_the_audit_log(self) -> None:
        (self.folder / "svc.db").unlink()
        ran = self.ctl("cert", "make", "--host", "203.0.113.10")
        self.assertEqual(ran.status, 0)
        self.assertIn(
            "the change was made, but is not in the audit log: there is no database", ran.line
        )
