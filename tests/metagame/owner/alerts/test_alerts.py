"""Alert channels on the dashboard: their addresses stay hidden, and each can be tested."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import alert_channels
from svcserver.kernel.alert_channels import FRESH_S, AlertChannel, AlertChannels, Delivery
from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.store import SqlAccounts
from tests.support.browser import Page
from tests.support.game import START, Game
from tests.support.proves import proves

READ, TEST = "/svc/api/DashboardAlerts", "/svc/api/DashboardAlertTest"
PHONE = AlertChannel(
    "phone", "ntfy", ("down", "backup"), "23:00-07:00", Delivery(START, "a test", "no")
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

    def asked(self) -> list[str]:
        for file in self.folder.glob(f"{alert_channels.TEST}*"):
            os.utime(file, (START, START))
        return alert_channels.asked(self.folder, self.game.clock.seconds())

    @proves("GET DashboardAlerts")
    def test_channels_are_shown_while_a_service_sends_alerts(self) -> None:
        self.assertEqual(self.read().json, {"on": False, "channels": [], "wrong": []})
        self.described()
        reply = self.read().json
        self.assertTrue(reply["on"])
        self.assertEqual(
            reply["channels"][0],
            {
                "name": "phone",
                "form": "ntfy",
                "about": ["down", "backup"],
                "quiet": "23:00-07:00",
                "last": {"at": reply["channels"][0]["last"]["at"], "title": "a test", "why": "no"},
            },
        )
        self.assertEqual((reply["channels"][1]["last"], len(reply["wrong"])), (None, 1))
        self.game.clock.advance(FRESH_S + 1)
        self.assertFalse(self.read().json["on"])
        for odd in (b"", b"[]", b'{"form":2}', b'{"form":1,"all":[{"name":"x"}],"wrong":[]}'):
            (self.folder / alert_channels.STATE_FILE).write_bytes(odd)
            os.utime(self.folder / alert_channels.STATE_FILE, (START, START + FRESH_S))
            self.assertFalse(self.read().json["on"])

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
        self.assertEqual((self.asked(), self.asked()), (["phone"], []))
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
        self.assertEqual(self.asked(), [])
        self.assertEqual(len([*self.folder.glob("alert-test-*")]), 1)

    def test_staff_sees_channels_and_only_an_owner_tests_one(self) -> None:
        self.described()
        helper = self.game.player("Hel")
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(helper.id, Role.HELPER))
        self.assertEqual(self.read(helper.key).status, 200)
        self.assertEqual(self.attempt("phone", helper.key).status, 403)
