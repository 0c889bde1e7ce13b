"""Announcements and their countdown in the banner and in the chat."""

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.announcements import rules
from svcserver.metagame.owner.announcements.feature import SqlAnnouncement, announcement_watch
from tests.support.browser import Page
from tests.support.game import Game
from tests.support.proves import proves


class AnnouncementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.olga = self.game.player("Olga", admin=True)
        self.line_due: list[str] = []
        self.game.parts.news.announced.connect(lambda line: self.line_due.append(line.text))

    def announce(self, text: str, key: str = "", **sent: Any) -> Page:
        body = {"Text": text, **sent}
        path = "/svc/api/DashboardAnnouncement"
        return self.game.browse("POST", path, json=body, key=key or self.olga.key)

    def banner(self) -> dict[str, Any]:
        page: dict[str, Any] = self.game.browse("GET", "/svc-status").json
        return page

    def refresh(self) -> None:
        self.successResultOf(self.game.parts.announcements.refresh())

    @proves("POST DashboardAnnouncement", "GET DashboardAnnouncement")
    def test_an_announcement_is_in_banner_and_chat_until_it_expires(self) -> None:
        usual = self.banner()
        page = self.announce("Hunt night  at eight", For="2h")
        self.assertEqual(page.json["announcement"]["text"], "Hunt night at eight")
        text = "Hunt night at eight"
        self.assertEqual((self.banner()["de"], self.line_due), (text, [text]))
        self.assertEqual(list(self.banner()), list(usual))
        self.refresh()
        self.assertEqual(len(self.line_due), 1)
        self.game.clock.advance(7_200)
        self.assertEqual(self.banner(), usual)

    @proves("POST DashboardAnnouncement")
    def test_a_restart_is_counted_down_in_each_language(self) -> None:
        self.announce("New version", RestartIn="10m")
        self.assertEqual(self.banner()["en"], "New version Restart in 10 min.")
        self.assertEqual(self.banner()["fr"], "New version Redémarrage dans 10 min.")
        for _ in range(600):
            self.game.clock.advance(1)
            self.refresh()
        times = ("5 min", "2 min", "1 min", "30 s", "10 s")
        self.assertEqual(self.line_due[1:], [f"Restart in {time}." for time in times])
        self.assertEqual(self.banner()["en"], "Welcome to Game Server!")

    @proves("GET DashboardAnnouncement")
    def test_an_empty_announcement_ends_the_current_announcement(self) -> None:
        self.announce("one"), self.announce("two"), self.announce("")
        self.assertEqual(self.line_due, ["one", "two"])
        page = self.game.browse("GET", "/svc/api/DashboardAnnouncement", key=self.olga.key)
        self.assertEqual(page.json, {"announcement": None})
        rows = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json["rows"]
        self.assertEqual([row["action"] for row in rows], ["announce end", "announce", "announce"])
        self.assertEqual(rows[0]["before"]["text"], "two")

    def test_another_process_announcement_is_shown_within_a_second(self) -> None:
        clock = Clock()
        watch = announcement_watch(self.game.parts.announcements, clock)
        watch.startService()
        made = rules.announced(
            rules.new_announcement("from svcctl", "", ""), "svcctl", self.game.clock.seconds()
        )
        self.game.ledger.run(lambda tx: SqlAnnouncement(tx).put(made))
        clock.advance(1)
        self.assertEqual((self.banner()["en"], self.line_due), ("from svcctl", ["from svcctl"]))
        watch.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_helpers_and_invalid_announcements_are_refused(self) -> None:
        helper = self.game.player("Hal")
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(helper.id, Role.HELPER))
        self.assertEqual(self.announce("hello", key=helper.key).status, 403)
        for sent in ({"For": "soon"}, {"RestartIn": "8d"}):
            self.assertEqual(self.announce("hello", **sent).status, 400)
        self.assertEqual(self.announce("bell \x07").status, 400)
        self.assertEqual(self.announce("x" * 257).status, 400)
        self.assertEqual(self.announce("hello", For="0000000000000001m").status, 400)

    def test_an_empty_body_ends_the_announcement(self) -> None:
        self.assertEqual(self.announce("one", For="", RestartIn="").status, 200)
        path = "/svc/api/DashboardAnnouncement"
        page = self.game.browse("POST", path, json={}, key=self.olga.key)
        self.assertEqual((page.status, page.json), (200, {"announcement": None}))
