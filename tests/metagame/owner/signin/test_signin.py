"""The dashboard's session cookie, which no script can read and no other page can use."""

import base64
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.counters import Counted
from svcserver.kernel.machine import machine_headers
from svcserver.metagame.access.staff_sessions import LINK_LIVES_S, LIVES_S, MOST, Ticket
from svcserver.metagame.accounts.audit import AuditQuery, rows
from svcserver.metagame.accounts.dashboard_access import (
    TRIES,
    TRIES_S,
    DashboardAccess,
    SqlDashboardAccess,
    new_factor,
)
from svcserver.metagame.owner.signin import FactorRequest
from svcserver.web.eventstream import BEAT_S, EVERY_S
from tests.metagame.owner.moderation.test_moderation import StaffCase
from tests.support.browser import Page
from tests.support.game import signing_keys
from tests.support.proves import proves

PATH = "/svc/api/DashboardSession"
OURS = {"x-svc-dashboard": "1"}


def code_of(secret: str, now: float) -> str:
    """Return the code that the second factor shows at the time ``now``."""
    totp = TOTP(base64.b32decode(secret), 6, SHA1(), 30)  # noqa: S303 - RFC 6238
    return totp.generate(int(now)).decode()


class SessionTests(StaffCase):
    word = "1"

    def sign_in(self, key: str) -> str:
        page = self.game.browse("POST", PATH, key=key, headers=OURS)
        self.assertEqual(page.status, 200)
        cookie: str = page.headers["set-cookie"]
        self.word = page.json["Word"]
        for mark in ("HttpOnly", "SameSite=Strict", "Path=/svc"):
            self.assertIn(mark, cookie)
        self.assertNotIn(key, cookie)
        return cookie.partition(";")[0]

    def ask(self, cookie: str, method: str = "GET", path: str = PATH, **sent: Any) -> Page:
        word = {"x-svc-dashboard": self.word}
        return self.game.browse(method, path, headers={**word, "Cookie": cookie, **sent})

    @proves("POST DashboardSession", "GET DashboardSession", "DELETE DashboardSession")
    def test_the_cookie_stands_for_the_key_until_sign_out(self) -> None:
        cookie = self.sign_in(self.helper.key)
        self.assertEqual(self.ask(cookie).json["Role"], "helper")
        self.assertEqual(self.ask(cookie, path="/svc/api/GetAllUsers").status, 200)
        self.assertFalse(self.ask(cookie, path="/svc/api/ServerStatus").json["limited"])
        self.assertEqual(self.ask(cookie, path="/svc/api/InviteCodes").status, 403)
        self.assertIn("Max-Age=0", self.ask(cookie, "DELETE").headers["set-cookie"])
        self.assertEqual(self.ask(cookie).status, 401)

    def test_a_session_cookie_is_refused_from_another_page_or_proxy(self) -> None:
        cookie = self.sign_in(self.olga.key)
        bare = self.game.browse("GET", PATH, headers={"Cookie": cookie})
        self.assertEqual(bare.status, 401)
        for sent in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
            self.assertEqual(self.ask(cookie, "POST", **sent).status, 403)
        self.assertEqual(self.ask(cookie, **{"X-Forwarded-For": "203.0.113.9"}).status, 403)

    def test_the_cookie_is_useless_without_its_word(self) -> None:
        cookie = self.sign_in(self.olga.key)
        for word in ("1", "0" * 32, self.word.upper()):
            self.assertEqual(self.ask(cookie, **{"x-svc-dashboard": word}).status, 401, word)
        second_cookie = self.sign_in(self.olga.key)
        self.assertNotEqual(cookie.partition("=")[0], second_cookie.partition("=")[0])
        self.assertEqual(self.ask(f"{cookie}; {second_cookie}").status, 200)

    def test_a_sign_in_ends_at_its_expiry_or_with_the_accounts_sessions(self) -> None:
        cookie, word = self.sign_in(self.mod.key), self.word
        second_cookie = self.sign_in(self.helper.key)
        self.successResultOf(Deferred.fromCoroutine(self.game.parts.sessions.end(self.mod.id)))
        ended = self.ask(cookie, **{"x-svc-dashboard": word}).status
        self.assertEqual([ended, self.ask(second_cookie).status], [401, 200])
        self.game.clock.advance(LIVES_S)
        self.assertEqual(self.ask(second_cookie).status, 401)

    def test_another_role_ends_the_session_for_good(self) -> None:
        cookie = self.sign_in(self.mod.key)
        for role in ("helper", "moderator"):
            self.do(self.olga, "Role", "Mona", Role=role)
            self.assertEqual(self.ask(cookie).status, 401, role)

    @proves("GET DashboardEvents")
    def test_a_page_stream_ends_with_the_right_to_read_it(self) -> None:
        ends: dict[str, Callable[[str], object]] = {
            "sign-out": lambda cookie: self.ask(cookie, "DELETE"),
            "role": lambda _: self.do(self.olga, "Role", "Mona", Role="helper"),
            "ban": lambda _: self.do(self.olga, "Ban", "Mona", For="1s"),
            "key": lambda _: self.do(self.olga, "NewKey", "Mona"),
        }
        for what, end in ends.items():
            cookie = self.sign_in(self.mod.key)
            sent = {"x-svc-dashboard": self.word, "Cookie": cookie, "Accept": "text/event-stream"}
            stream = self.game.browse.ask("GET", "/svc/api/DashboardEvents?page=beat", headers=sent)
            self.game.clock.pump([EVERY_S] * int(BEAT_S))
            self.game.browse.flush()
            self.assertNoResult(stream)
            end(cookie)
            self.game.clock.pump([EVERY_S] * int(BEAT_S))
            self.game.browse.flush()
            self.assertEqual(self.successResultOf(stream).status, 200, what)
            self.assertEqual(self.ask(cookie).status, 401, what)

    def test_one_session_too_many_ends_the_oldest(self) -> None:
        first, word = self.sign_in(self.mod.key), self.word
        second_cookie, others = self.sign_in(self.helper.key), self.word
        for _ in range(MOST):
            self.game.clock.advance(10)
            last = self.sign_in(self.mod.key)
        self.assertEqual(self.ask(last).status, 200)
        self.assertEqual(self.ask(first, **{"x-svc-dashboard": word}).status, 401)
        self.assertEqual(self.ask(second_cookie, **{"x-svc-dashboard": others}).status, 200)

    def test_a_session_cannot_start_another(self) -> None:
        cookie = self.sign_in(self.helper.key)
        refused = self.ask(cookie, "POST")
        self.assertEqual((refused.status, "set-cookie" in refused.headers), (401, False))

    def test_a_session_begun_during_a_ban_is_refused(self) -> None:
        self.do(self.olga, "Ban", "Mona", For="1h")
        begun = self.game.parts.desk.staff.begin(self.mod.id, "")
        ticket = self.successResultOf(Deferred.fromCoroutine(begun))
        cookie, self.word = f"{ticket.cookie}={ticket.secret}", ticket.word
        self.assertEqual(self.ask(cookie).status, 401)
        self.assertTrue(self.ask(cookie, path="/svc/api/ServerStatus").json["limited"])
        self.game.clock.advance(3_601)
        self.assertEqual(self.ask(cookie).status, 200)

    def test_another_key_or_second_factor_ends_the_other_sessions(self) -> None:
        def change(cookie: str, route: str, **sent: Any) -> int:
            word = {"x-svc-dashboard": self.word, "Cookie": cookie}
            path = f"/svc/api/Dashboard{route}"
            page = self.game.browse("POST", path, key=self.key, headers=word, json=sent)
            self.key = (page.json or {}).get("key") or self.key
            return page.status

        self.key = self.mod.key
        elsewhere, word = self.sign_in(self.mod.key), self.word
        own = self.sign_in(self.mod.key)
        self.assertEqual(change(own, "OwnKey", On=True), 200)
        self.assertEqual(self.ask(own).status, 200)
        self.assertEqual(self.ask(elsewhere, **{"x-svc-dashboard": word}).status, 401)
        secret = self.ask(own, path="/svc/api/DashboardAccess").json["secret"]
        code = TOTP(base64.b32decode(secret), 6, SHA1(), 30)  # noqa: S303 - RFC 6238
        now = code.generate(int(self.game.clock.seconds())).decode()
        self.assertEqual(change(own, "SecondFactor", Code=now, Secret=secret), 200)
        self.assertEqual(self.ask(own).status, 200)
        access = SqlDashboardAccess
        self.game.ledger.run(lambda tx: access(tx).put(DashboardAccess(self.mod.id)))  # by svcctl
        self.assertEqual(self.ask(own).status, 401)

    @proves("POST DashboardOwnKey", "POST DashboardSecondFactor")
    def test_a_session_alone_cannot_change_the_sign_in_settings(self) -> None:
        cookie = self.sign_in(self.mod.key)
        word = {"x-svc-dashboard": self.word, "Cookie": cookie}
        shown = self.ask(cookie, path="/svc/api/DashboardAccess").json
        for route, sent in (
            ("OwnKey", {"On": True}),
            ("SecondFactor", {"Code": "000000", "Secret": shown["secret"]}),
        ):
            path = f"/svc/api/Dashboard{route}"
            reply = self.game.browse("POST", path, headers=word, json=sent)
            self.assertEqual((reply.status, reply.json["error"]), (401, "key_wanted"))
        # a request with another account's key does not extend this session either
        self.game.browse("POST", "/svc/api/DashboardOwnKey", headers=word, key=self.olga.key,
                         json={"On": True})  # fmt: skip
        self.assertEqual(self.ask(cookie).json["Username"], "Mona")
        self.assertFalse(self.ask(cookie, path="/svc/api/DashboardAccess").json["ownKey"])

    def test_an_invalid_session_cookie_is_401(self) -> None:
        name = self.sign_in(self.mod.key).partition("=")[0]
        for cookie in (f"{name}=", f"{name}=" + "0" * 64, "a=b", '"', "x" * 5_000):
            self.assertEqual(self.ask(cookie).status, 401, cookie[:20])

    @proves("who of the staff may do what")
    def test_a_withdrawn_role_counts_at_once(self) -> None:
        cookie = self.sign_in(self.mod.key)
        self.do(self.olga, "Role", "Mona", Role="player")
        self.assertEqual(self.ask(cookie).status, 401)

    @proves("GET DashboardAudit")
    def test_a_players_attempt_is_recorded(self) -> None:
        self.assertEqual(self.do(self.ann, "Kick", "Bob_1").status, 403)
        row = self.rows()[0]
        self.assertEqual((row["actor"], row["action"]), ("Ann_1", "POST /svc/api/DashboardKick"))
        self.assertTrue(row["refused"])


LINK = "/svc/api/DashboardSignInLink"
LINK_SESSION = "/svc/api/DashboardLinkSession"


class LinkTests(StaffCase):
    """A link that signs in once, made by a command on the server's machine."""

    def made(self, **sent: str) -> Page:
        now = self.game.clock.seconds()
        headers = machine_headers(signing_keys()[0], "svcctl:ada", "POST", LINK, now)
        return self.game.browse("POST", LINK, headers=headers, json=sent)

    def used(self, link: str, **headers: str) -> Page:
        return self.game.browse("POST", LINK_SESSION, json={"Link": link}, headers=headers)

    @proves("POST DashboardSignInLink", "POST DashboardLinkSession")
    def test_a_link_signs_in_once_and_is_audited(self) -> None:
        made = self.made().json
        self.assertEqual(made["Username"], "Olga")
        page = self.used(made["Link"])
        self.assertEqual((page.json["Username"], page.json["Role"]), ("Olga", "owner"))
        cookie = page.headers["set-cookie"].partition(";")[0]
        sent = {"x-svc-dashboard": page.json["Word"], "Cookie": cookie}
        self.assertEqual(self.game.browse("GET", PATH, headers=sent).json["Username"], "Olga")
        again = self.used(made["Link"])
        self.assertEqual((again.status, again.json["error"]), (401, "used_link"))
        self.assertNotIn("set-cookie", again.headers)
        acts = [(row["actor"], row["action"], row["target"]) for row in self.rows()[:2]]
        link = ("svcctl:ada", "sign-in link", "Olga")
        self.assertEqual(acts, [("Olga", "sign in", "Olga"), link])

    @proves("POST DashboardSignInLink")
    def test_only_a_command_on_the_machine_makes_a_sign_in_link(self) -> None:
        for staff, status in ((self.olga, 409), (self.mod, 403)):
            page = self.game.browse("POST", LINK, key=staff.key, json={})
            self.assertEqual((page.status, b"Link" in page.body), (status, False))
        self.assertEqual(self.game.browse("POST", LINK, json={}).status, 401)
        self.assertEqual(self.made(Account="Ann_1").status, 404)
        self.assertEqual(self.made(Account="Mona").json["Username"], "Mona")

    @proves("POST DashboardLinkSession")
    def test_a_link_ends_with_its_time_or_the_accounts_rights(self) -> None:
        ends: dict[str, Callable[[], object]] = {
            "time": lambda: self.game.clock.advance(LINK_LIVES_S),
            "role": lambda: self.do(self.olga, "Role", "Mona", Role="helper"),
            "kick": lambda: self.do(self.olga, "Kick", "Mona"),
            "key": lambda: self.do(self.olga, "NewKey", "Mona"),
        }
        for what, end in ends.items():
            link = self.made(Account="Mona").json["Link"]
            end()
            self.assertEqual(self.used(link).status, 401, what)

    def test_a_link_opens_nothing_by_itself_and_not_from_elsewhere(self) -> None:
        link = self.made().json["Link"]
        for name in ("link", link):
            ticket = Ticket(name, link)
            sent = {"x-svc-dashboard": link, "Cookie": f"{ticket.cookie}={name}"}
            self.assertEqual(self.game.browse("GET", PATH, headers=sent).status, 401)
        for sent in ({"Origin": "http://evil.example"}, {"X-Forwarded-For": "203.0.113.9"}):
            self.assertEqual(self.used(link, **sent).status, 403)
        for wrong in ("0" * 64, link.upper(), "link"):
            self.assertEqual(self.used(wrong).status, 401)
        self.assertEqual(self.used(link).status, 200)


class WaysTests(StaffCase):
    """Sign-in with a separate dashboard key and with a second factor."""

    def ways(self, route: str, key: str, **sent: Any) -> Page:
        return self.game.browse("POST", f"/svc/api/Dashboard{route}", key=key, json=sent)

    def sign_in(self, key: str, code: str | None = None) -> Page:
        headers = OURS if code is None else {**OURS, "x-svc-second-factor": code}
        return self.game.browse("POST", PATH, key=key, headers=headers)

    def code(self, secret: str) -> str:
        return code_of(secret, self.game.clock.seconds())

    @proves("POST DashboardOwnKey", "GET DashboardAccess")
    def test_with_a_dashboard_key_the_account_key_only_plays(self) -> None:
        key = self.ways("OwnKey", self.mod.key, On=True).json["key"]
        self.assertEqual([self.sign_in(self.mod.key).status, self.sign_in(key).status], [401, 200])
        self.assertEqual(self.log_in(self.mod), 200)
        login = {"exchange_code": key}
        refused = self.game.browse("POST", "/account/api/oauth/token", json=login)
        self.assertEqual(refused.status, 400)
        self.assertTrue(self.game.browse("GET", "/svc/api/DashboardAccess", key=key).json["ownKey"])
        self.do(self.olga, "Ban", "Mona")
        self.assertEqual(self.sign_in(key).status, 403)
        self.do(self.olga, "Unban", "Mona")
        self.assertEqual(self.ways("OwnKey", key, On=False).json, {"key": None})
        self.assertEqual([self.sign_in(key).status, self.sign_in(self.mod.key).status], [401, 200])

    @proves("POST DashboardOwnKey", "forbidden")
    def test_a_key_that_only_plays_acts_for_nobody_else(self) -> None:
        def asks(key: str, **sent: str) -> int:
            request = {"Username": "Bob_1", **sent}
            return self.game.browse("POST", "/svc/api/Friends", json=request, key=key).status

        self.assertEqual(asks(self.olga.key, From="Ann_1"), 200)
        own = self.ways("OwnKey", self.olga.key, On=True).json["key"]
        self.assertEqual(asks(self.olga.key, From="Ann_1"), 403)
        self.assertEqual(asks(self.olga.key), 200)
        who = self.game.browse("GET", "/svc/api/GetUserInfo", key=self.olga.key)
        self.assertTrue(who.json["IsAdmin"])
        self.ways("OwnKey", own, On=False)
        self.assertEqual(asks(self.olga.key, From="Ann_1"), 200)
        secret = self.game.browse("GET", "/svc/api/DashboardAccess", key=self.olga.key).json
        code = self.code(secret["secret"])
        self.ways("SecondFactor", self.olga.key, Code=code, Secret=secret["secret"])
        self.assertEqual(asks(self.olga.key, From="Ann_1"), 403)

    @proves("POST DashboardSecondFactor")
    def test_a_second_factor_is_asked_for_and_each_code_counts_once(self) -> None:
        shown = self.game.browse("GET", "/svc/api/DashboardAccess", key=self.olga.key).json
        secret = shown["secret"]
        self.assertIn(f"secret={secret}", shown["address"])
        wrong = self.ways("SecondFactor", self.olga.key, Code="000000", Secret=secret)
        right = self.ways("SecondFactor", self.olga.key, Code=self.code(secret), Secret=secret)
        self.assertEqual([wrong.status, right.status], [400, 200])
        alone = self.game.browse("GET", "/svc/api/GetAllUsers", key=self.olga.key)
        self.assertEqual(alone.status, 401)
        self.assertEqual(self.sign_in(self.olga.key).json["error"], "second_factor")
        self.assertEqual(self.sign_in(self.olga.key, self.code(secret)).status, 401)  # used
        counted = self.game.parts.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted["second_factor"], 1)
        self.game.clock.advance(30)
        self.assertEqual(self.sign_in(self.olga.key, self.code(secret)).status, 200)
        self.assertEqual(self.sign_in(self.olga.key, self.code(secret)).status, 401)

    def test_guesses_are_throttled_whatever_the_board_forgets(self) -> None:
        shown = self.game.browse("GET", "/svc/api/DashboardAccess", key=self.olga.key).json
        secret = shown["secret"]
        self.ways("SecondFactor", self.olga.key, Code=self.code(secret), Secret=secret)
        self.game.clock.advance(TRIES_S)
        for _ in range(TRIES):
            self.assertEqual(self.sign_in(self.olga.key, "000000").status, 401)
        refused = self.sign_in(self.olga.key, self.code(secret))
        self.assertEqual((refused.status, refused.headers["retry-after"]), (429, str(TRIES_S)))
        self.game.clock.advance(TRIES_S)
        self.assertEqual(self.sign_in(self.olga.key, self.code(secret)).status, 200)

    @proves("POST DashboardOwnKey")
    def test_a_new_own_key_requires_the_second_factors_code(self) -> None:
        page = self.game.browse("GET", "/svc/api/DashboardAccess", key=self.olga.key)
        secret = page.json["secret"]
        self.ways("SecondFactor", self.olga.key, Code=self.code(secret), Secret=secret)
        self.game.clock.advance(30)
        path, on = "/svc/api/DashboardOwnKey", {"On": True}
        for code, status in ((None, 401), ("000000", 401), (self.code(secret), 200)):
            headers = {} if code is None else {"x-svc-second-factor": code}
            reply = self.game.browse("POST", path, key=self.olga.key, headers=headers, json=on)
            self.assertEqual(reply.status, status, code)

    @proves("every act of staff and every refused try is in the audit log")
    def test_a_wrong_code_or_missing_key_leaves_an_audit_row(self) -> None:
        ways = self.game.browse("GET", "/svc/api/DashboardAccess", key=self.olga.key).json
        secret = ways["secret"]
        self.ways("SecondFactor", self.olga.key, Code=self.code(secret), Secret=secret)
        self.game.clock.advance(60)
        self.assertEqual(self.sign_in(self.olga.key, "000000").status, 401)
        self.refused("POST /svc/api/DashboardSession", "enter the code from your authenticator app")
        sent = {"x-svc-second-factor": "000000"}
        for route, body in (
            ("OwnKey", {"On": True}),
            ("SecondFactor", {"Code": "000000"}),
        ):
            path = f"/svc/api/Dashboard{route}"
            page = self.game.browse("POST", path, key=self.olga.key, headers=sent, json=body)
            self.assertEqual(page.status, 401)
            self.refused(
                {"OwnKey": f"POST {path}", "SecondFactor": "second factor"}[route],
                "enter the code from your authenticator app",
            )

    def refused(self, action: str, why: str) -> None:
        """Check that the newest audit row records Olga's action as rejected for this reason."""
        [newest] = self.game.ledger.run(lambda tx: rows(tx, AuditQuery(count=1)))
        row = (newest["actor"], newest["action"], newest["refused"])
        self.assertEqual(row, ("Olga", action, why))

    def test_guesses_of_codes_are_throttled(self) -> None:
        secret = self.game.browse("GET", "/svc/api/DashboardAccess", key=self.olga.key).json[
            "secret"
        ]
        self.ways("SecondFactor", self.olga.key, Code=self.code(secret), Secret=secret)
        statuses = [self.sign_in(self.olga.key, f"{number:06}").status for number in range(20)]
        self.assertEqual(statuses[-1], 429)


class StaffKeyTests(StaffCase):
    """Actions that give lasting staff rights need more than a session."""

    def setUp(self) -> None:
        super().setUp()
        page = self.game.browse("POST", PATH, key=self.olga.key, headers=OURS)
        cookie = page.headers["set-cookie"].partition(";")[0]
        self.session = {"Cookie": cookie, "x-svc-dashboard": page.json["Word"]}

    def send(self, act: str, who: str, *, key: str = "", code: str = "", role: str = "") -> Page:
        headers = dict(self.session)
        if key:
            headers["x-svc-user-api-key"] = key
        if code:
            headers["x-svc-second-factor"] = code
        body = {"Account": who} | ({"Role": role} if role else {})
        return self.game.browse("POST", f"/svc/api/Dashboard{act}", json=body, headers=headers)

    def second_factor(self) -> Callable[[], str]:
        """Give Olga a second factor and return a function for its current code."""
        factor = new_factor()
        access = DashboardAccess(self.olga.id, factor=factor)
        self.game.ledger.run(lambda tx: SqlDashboardAccess(tx).put(access))
        return lambda: code_of(factor, self.game.clock.seconds())

    @proves("POST DashboardRole", "who of the staff may do what")
    def test_a_session_alone_gives_no_staff_role(self) -> None:
        for role in ("helper", "moderator", "owner"):
            page = self.send("Role", "Ann_1", role=role)
            self.assertEqual((page.status, page.json["error"]), (401, "key_wanted"), role)
        self.assertEqual(self.send("Role", "Hal", role="moderator").status, 401)
        row = self.rows()[0]
        self.assertEqual((row["actor"], row["action"], row["target"]), ("Olga", "role", "Hal"))
        self.assertIn("Enter the key", row["refused"])
        self.assertEqual(self.send("Role", "Ann_1", role="owner", key="UUK_x").status, 401)
        page = self.send("Role", "Ann_1", role="moderator", key=self.olga.key)
        self.assertEqual((page.status, page.json["Role"]), (200, "moderator"))

    @proves("POST DashboardRole")
    def test_a_session_alone_takes_a_role_away(self) -> None:
        for role in ("moderator", "helper", "player", "player"):
            page = self.send("Role", "Mona", role=role)
            self.assertEqual((page.status, page.json["Role"]), (200, role))

    @proves("POST DashboardNewKey", "who of the staff may do what")
    def test_a_session_alone_gives_no_new_key(self) -> None:
        self.send("Role", "Hal", role="player")  # a demoted account may become staff again
        for who in ("Olga", "Mona", "Hal", "Ann_1"):
            page = self.send("NewKey", who)
            self.assertEqual((page.status, page.json["error"]), (401, "key_wanted"), who)
        self.assertEqual(self.log_in(self.mod), 200)
        self.assertIn("Enter the key", self.rows()[0]["refused"])
        page = self.send("NewKey", "Mona", key=self.olga.key)
        self.assertEqual((page.status, page.json["Username"]), (200, "Mona"))

    @proves("POST DashboardNewKey", "POST DashboardRole")
    def test_a_change_of_staff_rights_requires_an_unused_code(self) -> None:
        code = self.second_factor()
        for act, who, role in (("NewKey", "Mona", ""), ("Role", "Ann_1", "owner")):
            for wrong in ("", "000000"):
                page = self.send(act, who, role=role, key=self.olga.key, code=wrong)
                self.assertEqual((page.status, page.json["error"]), (401, "second_factor"), act)
            page = self.send(act, who, role=role, key=self.olga.key, code=code())
            self.assertEqual(page.status, 200, act)
            page = self.send(act, who, role=role, key=self.olga.key, code=code())
            self.assertEqual(page.status, 401, act)  # it was used
            self.game.clock.advance(30)
        counted = self.game.parts.counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(counted["second_factor"], 4)

    @proves("POST DashboardNewKey", "POST DashboardRole")
    def test_guesses_of_codes_for_staff_rights_are_throttled(self) -> None:
        code = self.second_factor()
        acts = (("NewKey", "Mona", ""), ("Role", "Ann_1", "owner"))
        for number in range(TRIES):
            act, who, role = acts[number % 2]
            page = self.send(act, who, role=role, key=self.olga.key, code="000000")
            self.assertEqual(page.status, 401)
        for act, who, role in acts:
            page = self.send(act, who, role=role, key=self.olga.key, code=code())
            self.assertEqual(page.status, 429)

    @proves("POST DashboardNewKey", "POST DashboardRole")
    def test_the_machines_ticket_needs_no_key(self) -> None:
        for act, more in (("Role", {"Role": "helper"}), ("NewKey", {})):
            path = f"/svc/api/Dashboard{act}"
            now = self.game.clock.seconds()
            headers = machine_headers(signing_keys()[0], "svcctl:ada", "POST", path, now)
            body = {"Account": "Ann_1", **more}
            page = self.game.browse("POST", path, json=body, headers=headers)
            self.assertEqual(page.status, 200, act)


class RequestTests(SynchronousTestCase):
    def test_the_repr_hides_secrets_and_the_secret_is_optional(self) -> None:
        self.assertEqual(repr(FactorRequest("123456", "SECRET")), "FactorRequest()")
        self.assertEqual(FactorRequest("123456").secret, "")
