"""The dashboard's session: a cookie that no script reads and no other page can use."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from svcserver.metagame.access.staff_sessions import COOKIE, LIVES_S, StaffSessions
from tests.metagame.owner.moderation.test_moderation import StaffCase
from tests.support.browser import Page
from tests.support.proves import proves

PATH = "/svc/api/DashboardSession"
OURS = {"x-svc-dashboard": "1"}


class SessionTests(StaffCase):
    def sign_in(self, key: str) -> str:
        page = self.game.browse("POST", PATH, key=key, headers=OURS)
        self.assertEqual(page.status, 200)
        cookie: str = page.headers["set-cookie"]
        for mark in ("HttpOnly", "SameSite=Strict", "Path=/svc"):
            self.assertIn(mark, cookie)
        self.assertNotIn(key, cookie)
        return cookie.partition(";")[0]

    def ask(self, cookie: str, method: str = "GET", path: str = PATH, **sent: Any) -> Page:
        return self.game.browse(method, path, headers={**OURS, "Cookie": cookie, **sent})

    @proves("POST DashboardSession", "GET DashboardSession", "DELETE DashboardSession")
    def test_the_cookie_stands_for_the_key_until_sign_out(self) -> None:
        cookie = self.sign_in(self.helper.key)
        self.assertEqual(self.ask(cookie).json["Role"], "helper")
        self.assertEqual(self.ask(cookie, path="/svc/api/GetAllUsers").status, 200)
        self.assertFalse(self.ask(cookie, path="/svc/api/ServerStatus").json["limited"])
        self.assertEqual(self.ask(cookie, path="/svc/api/InviteCodes").status, 403)
        self.assertIn("Max-Age=0", self.ask(cookie, "DELETE").headers["set-cookie"])
        self.assertEqual(self.ask(cookie).status, 401)

    def test_another_page_cannot_use_it(self) -> None:
        cookie = self.sign_in(self.olga.key)
        bare = self.game.browse("GET", PATH, headers={"Cookie": cookie})
        self.assertEqual(bare.status, 401)
        for sent in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
            self.assertEqual(self.ask(cookie, "POST", **sent).status, 403)
        self.assertEqual(self.ask(cookie, **{"X-Forwarded-For": "203.0.113.9"}).status, 403)

    def test_it_ends_with_its_time_and_with_the_accounts_sessions(self) -> None:
        cookie, other = self.sign_in(self.mod.key), self.sign_in(self.helper.key)
        self.successResultOf(Deferred.fromCoroutine(self.game.parts.sessions.end(self.mod.id)))
        self.assertEqual([self.ask(cookie).status, self.ask(other).status], [401, 200])
        self.game.clock.advance(LIVES_S)
        self.assertEqual(self.ask(other).status, 401)

    def test_a_session_begins_no_other_which_would_outlive_it(self) -> None:
        cookie = self.sign_in(self.helper.key)
        refused = self.ask(cookie, "POST")
        self.assertEqual((refused.status, "set-cookie" in refused.headers), (401, False))

    def test_one_that_began_while_a_ban_was_committed_lets_nobody_in(self) -> None:
        self.do(self.olga, "Ban", "Mona", For="1h")
        sessions = self.game.parts.sessions
        begun = StaffSessions(sessions.board, sessions.epochs).begin(self.mod.id)
        cookie = f"{COOKIE}={self.successResultOf(Deferred.fromCoroutine(begun))}"
        self.assertEqual(self.ask(cookie).status, 401)
        self.assertTrue(self.ask(cookie, path="/svc/api/ServerStatus").json["limited"])
        self.game.clock.advance(3_601)
        self.assertEqual(self.ask(cookie).status, 200)

    def test_a_wrong_one_is_no_session(self) -> None:
        for cookie in (f"{COOKIE}=", f"{COOKIE}=" + "0" * 64, "a=b", '"', "x" * 5_000):
            self.assertEqual(self.ask(cookie).status, 401, cookie[:20])

    @proves("who of the staff may do what")
    def test_a_role_that_is_taken_back_counts_at_once(self) -> None:
        cookie = self.sign_in(self.mod.key)
        self.do(self.olga, "Role", "Mona", Role="player")
        self.assertEqual(self.ask(cookie).status, 403)

    @proves("GET DashboardAudit")
    def test_a_players_try_is_recorded(self) -> None:
        self.assertEqual(self.do(self.ann, "Kick", "Bob_1").status, 403)
        [row] = self.rows()
        self.assertEqual((row["actor"], row["action"]), ("Ann_1", "POST /svc/api/DashboardKick"))
        self.assertTrue(row["refused"])
