"""Alert channels on the dashboard: their addresses stay hidden, and each can be tested."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import alert_channels, alert_settings, host_state
from svcserver.kernel.alert_channels import FRESH_S, AlertChannel, AlertChannels, Delivery
from svcserver.kernel.host_state import HostState, Incident
from svcserver.kernel.roles import Role
from svcserver.kernel.settings import parse_env_file
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.store import SqlAccounts
from tests.support.browser import Page
from tests.support.game import START, Game
from tests.support.proves import proves

READ, TEST = "/svc/api/DashboardAlerts", "/svc/api/DashboardAlertTest"
CHANNEL = "/svc/api/DashboardAlertChannel"
NONE = {"on": False, "channels": [], "broken": [], "wrong": [], "incidents": []}
SECRETS = ("hook.example", "tk_1", "SIGNING")
PHONE = AlertChannel(
    "phone", "ntfy", ("down", "backup"), "23:00-07:00", (Delivery(START, "a test", "no"),)
)


class AlertTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.game = Game(self)
        self.olga = self.game.player("Olga", admin=True)
        self.acts = self.game.parts.desk.alerts
        self.acts.folder = self.folder

    def described(self) -> None:
        mail = AlertChannel("mail", "mail")
        wrong = ["alert-x.env: FORM must be one of json"]
        alert_channels.write(self.folder, AlertChannels([PHONE, mail], wrong))
        os.utime(self.folder / alert_channels.STATE_FILE, (START, START))

    def read(self, key: str = "") -> Page:
        return self.game.browse("GET", READ, key=key or self.olga.key)

    def attempt(self, name: str, key: str = "") -> Page:
        return self.game.browse("POST", TEST, json={"Name": name}, key=key or self.olga.key)

    def take_requests(self) -> list[str]:
        for file in self.folder.glob(f"{alert_channels.TEST}*"):
            os.utime(file, (START, START))
        return alert_channels.take_test_requests(self.folder, self.game.clock.seconds())

    @proves("GET DashboardAlerts")
    def test_channels_are_shown_while_a_service_sends_alerts(self) -> None:
        self.assertEqual(self.read().json, NONE)
        self.described()
        reply = self.read().json
        self.assertTrue(reply["on"])
        last = {"at": reply["channels"][0]["last"]["at"], "title": "a test", "why": "no"}
        self.assertEqual(
            reply["channels"][0],
            {
                "name": "phone",
                "form": "ntfy",
                "about": ["down", "backup"],
                "quiet": "23:00-07:00",
                "last": last,
                "deliveries": [last],
            },
        )
        self.assertEqual((reply["channels"][1]["last"], len(reply["wrong"])), (None, 1))
        self.game.clock.advance(FRESH_S + 1)
        self.assertFalse(self.read().json["on"])
        for odd in (b"", b"[]", b'{"form":1}', b'{"form":2,"all":[{"name":"x"}],"wrong":[]}'):
            (self.folder / alert_channels.STATE_FILE).write_bytes(odd)
            os.utime(self.folder / alert_channels.STATE_FILE, (START, START + FRESH_S))
            self.assertFalse(self.read().json["on"])

    @proves("GET DashboardAlerts")
    def test_incidents_are_shown_though_the_stack_has_stopped(self) -> None:
        ended = Incident("gateway is down", "See its log.", START - 90, START - 30)
        lasting = Incident("the host's disk is low", "5 % is free.", START - 60)
        host_state.write(self.folder, HostState(START - 86_400, incidents=(lasting, ended)))
        low, down = self.read().json["incidents"]
        self.assertEqual((low["title"], low["until"]), ("the host's disk is low", None))
        times = {"since": iso(START - 90), "until": iso(START - 30)}
        self.assertEqual(down, {"title": "gateway is down", "text": "See its log.", **times})

    @proves("POST DashboardAlertTest")
    def test_testing_a_channel_is_recorded_in_the_audit_log(self) -> None:
        page = self.attempt("phone")
        self.assertEqual((page.status, page.json["error"]), (409, "no_watcher"))
        self.described()
        self.assertEqual(self.attempt("nobody").status, 404)
        for wrong in ("../metagame", "", "X", "a" * 33):
            self.assertEqual(self.attempt(wrong).status, 400, wrong)
        page = self.attempt("phone")
        self.assertEqual((page.status, page.json), (200, {"asked": True}))
        self.assertEqual((self.take_requests(), self.take_requests()), (["phone"], []))
        rows = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json["rows"]
        self.assertEqual((rows[0]["action"], rows[0]["target"]), ("test alerts", "phone"))
        self.assertEqual([row["refused"] is None for row in rows], [True, *[False] * 6])
        self.assertEqual({row["actor"] for row in rows}, {"Olga"})
        self.acts.folder = self.folder / "nowhere"
        self.assertEqual(self.attempt("phone").status, 409)

    def test_a_test_request_that_nobody_took_expires(self) -> None:
        self.described()
        self.attempt("phone")
        (self.folder / f"{alert_channels.TEST}Odd Name").write_text("x")
        self.game.clock.advance(3_600)
        self.assertEqual(self.take_requests(), [])
        self.assertEqual(len([*self.folder.glob("alert-test-*")]), 1)

    def test_staff_sees_alert_channels_and_only_an_owner_tests_them(self) -> None:
        self.described()
        helper = self.game.player("Hel")
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(helper.id, Role.HELPER))
        self.assertEqual(self.read(helper.key).status, 200)
        self.assertEqual(self.attempt("phone", helper.key).status, 403)


class ChannelTests(SynchronousTestCase):
    """The dashboard's requests that write the channels' env files."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.game = Game(self)
        self.olga = self.game.player("Olga", admin=True)
        self.game.parts.desk.alerts.folder = self.folder
        self.game.parts.desk.dashboard.folder = self.folder

    def save(self, name: str = "phone", *, new: bool = True, **more: object) -> Page:
        body = {"Name": name, "New": new, "Form": "ntfy", "Url": "https://hook.example/t"}
        return self.game.browse("POST", CHANNEL, json={**body, **more}, key=self.olga.key)

    def settings(self, name: str = "phone", key: str = "") -> Page:
        return self.game.browse("GET", f"{CHANNEL}/{name}", key=key or self.olga.key)

    def lines(self, name: str = "phone") -> dict[str, str]:
        return parse_env_file((self.folder / f"alert-{name}.env").read_text())

    def listed(self) -> Page:
        return self.game.browse("GET", READ, key=self.olga.key)

    def audited(self) -> list[tuple[str, str, bool]]:
        page = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        rows = [row for row in page.json["rows"] if (row["after"] or {}).get("outcome") is None]
        return [(row["action"], row["target"], row["refused"] is None) for row in rows]

    @proves("POST DashboardAlertChannel", "GET DashboardAlertChannel/:name")
    def test_a_channel_is_added_and_its_secrets_are_never_sent(self) -> None:
        page = self.save(Token="tk_1", About="down,disk", Quiet="23:00-07:00")
        self.assertEqual((page.status, page.json), (200, {"name": "phone", "signingSecret": None}))
        path = self.folder / "alert-phone.env"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.lines()["TOKEN"], "tk_1")
        listed, settings = self.listed(), self.settings()
        [channel] = listed.json["channels"]
        self.assertEqual((channel["about"], channel["deliveries"]), (["down", "disk"], []))
        self.assertFalse(listed.json["on"])
        self.assertEqual((settings.json["token"], settings.json["signed"]), (True, True))
        for word in (*SECRETS, self.lines()["SIGNING_SECRET"]):
            self.assertNotIn(word, f"{listed.json}{settings.json}")
        self.assertIn(("add alerts", "phone", True), self.audited())

    @proves("POST DashboardAlertChannel")
    def test_the_signing_secret_of_a_webhook_is_sent_once(self) -> None:
        made = self.save("hook", Form="json").json["signingSecret"]
        self.assertEqual((len(made), made), (64, self.lines("hook")["SIGNING_SECRET"]))
        page = self.save("hook", new=False, Form="json", Url="", About="disk")
        self.assertIsNone(page.json["signingSecret"])
        self.assertEqual(self.lines("hook")["SIGNING_SECRET"], made)

    @proves("POST DashboardAlertChannel")
    def test_a_change_keeps_the_token_only_for_the_same_receiver(self) -> None:
        self.save(Token="tk_1")
        self.assertEqual(self.save(new=False, Url="", Quiet="1:00-2:00").status, 200)
        self.assertEqual((self.lines()["TOKEN"], self.lines()["QUIET"]), ("tk_1", "1:00-2:00"))
        for change in ({"Url": "https://evil.example/t"}, {"Url": "", "Private": True}):
            self.save(new=False, Url="https://hook.example/t", Token="tk_1")
            self.assertEqual(self.save(new=False, **change).status, 200)
            self.assertNotIn("TOKEN", self.lines())

    @proves("POST DashboardAlertChannel")
    def test_a_form_with_a_fault_is_refused_and_writes_no_file(self) -> None:
        wrong: tuple[dict[str, object], ...] = (
            {"Url": ""},
            {"Url": "ftp://x/y"},
            {"Url": "http://x/y"},
            {"Url": "https://x/y\nPRIVATE=1"},
            {"Token": "a\nPRIVATE=1"},
            {"Token": '"quoted"'},
            {"Form": "pigeon"},
            {"About": "weather"},
            {"Quiet": "late"},
            {"Form": "matrix", "Room": "!a:b"},
            {"Form": "mail"},
            {"Form": "mail", "Url": "smtps://mail.example"},
            {"Name": "../metagame"},
        )
        for fields in wrong:
            page = self.save(**fields)
            self.assertEqual(page.status, 400, fields)
            self.assertNotIn("_", page.json["message"], fields)
        self.assertEqual(list(self.folder.iterdir()), [])

    @proves("POST DashboardAlertChannel", "DELETE DashboardAlertChannel/:name")
    def test_names_are_unique_and_limited_and_a_channel_is_removed(self) -> None:
        self.assertEqual(self.save(new=False).status, 404)
        for number in range(alert_channels.MOST):
            self.assertEqual(self.save(f"c{number}").status, 200)
        self.assertEqual((self.save("c1").status, self.save("more").status), (409, 409))
        (self.folder / "alert-c2.env").write_text("FORM=pigeon\n")  # counts, too
        self.assertEqual(self.save("more").status, 409)
        address = f"{CHANNEL}/c1?Reason=old"
        page = self.game.browse("DELETE", address, key=self.olga.key)
        self.assertEqual(len(page.json["channels"]), alert_channels.MOST - 2)
        self.assertEqual(self.game.browse("DELETE", address, key=self.olga.key).status, 404)
        self.assertIn(("remove alerts", "c1", True), self.audited())
        self.assertEqual(self.save("c1").status, 200)
        self.assertEqual(self.settings("nobody").status, 404)
        (self.folder / "alert-c1.env").write_text("FORM=pigeon\n")
        self.assertEqual(self.settings("c1").status, 409)

    @proves("GET DashboardAlerts", "DELETE DashboardAlertChannel/:name")
    def test_a_channel_with_a_broken_file_is_listed_and_removed(self) -> None:
        self.save()
        files = {
            "broken": b"FORM=pigeon\n",
            "latin": b"FORM=json\nURL=https://x/\xe9\n",
            "Bad Name": b"",
        }
        for name, content in files.items():
            (self.folder / f"alert-{name}.env").write_bytes(content)
        (self.folder / os.fsdecode(b"alert-\xff.env")).write_bytes(b"")
        reply = self.listed().json
        self.assertEqual([channel["name"] for channel in reply["channels"]], ["phone"])
        self.assertEqual(reply["wrong"], [])
        names = {channel["name"] for channel in reply["broken"]}
        self.assertEqual(names, {*files, "\\udcff"})
        self.assertIn("FORM must be one of", str(reply["broken"]))
        for name in names:
            address = f"{CHANNEL}/{quote(name)}"
            page = self.game.browse("DELETE", address, key=self.olga.key)
            self.assertEqual(page.status, 200, name)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["alert-phone.env"])
        for name in ("..%2Fmetagame", "%2A", "phone.env"):
            page = self.game.browse("DELETE", f"{CHANNEL}/{name}", key=self.olga.key)
            self.assertEqual(page.status, 404, name)

    def last_row(self) -> dict[str, Any]:
        page = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        row: dict[str, Any] = page.json["rows"][0]
        return row

    @proves("POST DashboardAlertChannel")
    def test_the_audit_log_has_each_change_but_no_secret(self) -> None:
        self.save(Token="tk_1", About="down")
        row = self.last_row()
        secrets = {"url": "set", "token": "set", "signing_secret": "set"}
        self.assertEqual(row["after"], {"form": "ntfy", "about": "down"} | secrets)
        self.save(new=False, Url="https://hook.example/other", About="disk", Private=True)
        row = self.last_row()
        self.assertEqual(
            (row["before"], row["after"]),
            (
                {"about": "down", "url": "hidden", "token": "hidden"},
                {"about": "disk", "private": "1", "url": "replaced"},
            ),
        )
        self.save(new=False, Url="", About="disk", Private=True)
        row = self.last_row()
        self.assertEqual((row["before"], row["after"]), ({}, {}))
        self.game.browse("DELETE", f"{CHANNEL}/phone", key=self.olga.key)
        row = self.last_row()
        self.assertEqual(row["before"]["about"], "disk")
        page = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        for word in SECRETS[:2]:
            self.assertNotIn(word, str(page.json))

    @proves("POST DashboardAlertChannel")
    def test_a_signing_secret_is_replaced_on_request_and_sent_once(self) -> None:
        first = self.save("hook", Form="json").json["signingSecret"]
        change = {"Form": "json", "Url": "", "NewSecret": True}
        second = self.save("hook", new=False, **change).json["signingSecret"]
        self.assertEqual((len(second), second), (64, self.lines("hook")["SIGNING_SECRET"]))
        self.assertNotEqual(first, second)
        self.assertEqual(self.last_row()["after"], {"signing_secret": "replaced"})
        self.assertNotIn(second, f"{self.settings('hook').json}")
        unsigned = "FORM=json\nURL=https://hook.example/t\nUNSIGNED=1\n"
        (self.folder / "alert-hook.env").write_text(unsigned)
        third = self.save("hook", new=False, **change).json["signingSecret"]
        self.assertEqual(self.lines("hook")["SIGNING_SECRET"], third)
        self.assertNotIn("UNSIGNED", self.lines("hook"))

    @proves("POST DashboardAlertChannel")
    def test_a_change_of_a_channel_changed_meanwhile_is_refused(self) -> None:
        self.save()
        mark = self.settings().json["mark"]
        self.assertEqual(self.save(new=False, About="disk", Mark=mark).status, 200)
        page = self.save(new=False, About="down", Mark=mark)
        self.assertEqual((page.status, page.json["error"]), (409, "changed"))
        self.assertEqual(self.lines()["ABOUT"], "disk")

    def test_a_new_channel_is_written_whole_or_not_at_all(self) -> None:
        path = self.folder / "alert-phone.env"
        fresh = self.folder / ".alert-phone.env.0123.new"
        fresh.write_text("FORM=js")  # left by a writer that was killed
        os.utime(fresh, (0, 0))
        self.patch(alert_settings.os, "fsync", self.fail_to_write)
        self.assertEqual(self.save().status, 503)
        self.assertFalse(path.exists())
        self.patch(alert_settings.os, "fsync", lambda _: None)
        self.assertEqual(self.save().status, 200)
        self.assertEqual(self.save().status, 409)
        self.assertEqual([*self.folder.iterdir()], [path])

    @staticmethod
    def fail_to_write(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def test_without_hard_links_a_new_channel_replaces_no_file(self) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        self.patch(Path, "hardlink_to", refuse)
        self.assertEqual((self.save().status, self.save().status), (200, 409))

    def test_only_an_owner_reads_and_writes_the_settings(self) -> None:
        self.save()
        helper = self.game.player("Hel")
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(helper.id, Role.HELPER))
        body = {"Name": "x", "New": True, "Form": "json", "Url": "https://x"}
        self.assertEqual(self.settings(key=helper.key).status, 403)
        self.assertEqual(self.game.browse("POST", CHANNEL, json=body, key=helper.key).status, 403)
        self.assertEqual(self.game.browse("DELETE", f"{CHANNEL}/phone", key=helper.key).status, 403)

    def test_without_a_known_folder_no_channel_is_written(self) -> None:
        self.game.parts.desk.dashboard.folder = None
        self.assertEqual((self.save().status, self.settings().status), (409, 409))
        self.game.parts.desk.dashboard.folder = self.folder / "nowhere"
        self.assertEqual(self.save().status, 503)
