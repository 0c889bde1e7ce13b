"""The management routes for accounts. Spec: 2 §4 Management API, Register rules, §7 Errors."""

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.signals import Renamed
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.rules import InviteCode
from svcserver.metagame.accounts.store import ACCOUNTS, SqlAccounts
from svcserver.web.request import HttpRequest
from tests.support.browser import Page
from tests.support.game import Game
from tests.support.proves import proves

PROXY = {"X-Forwarded-For": "203.0.113.9"}


class RegisterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)

    def register(self, game: Game | None = None, **body: Any) -> Page:
        return (game or self.game).browse("POST", "/svc/api/Register", json=body)

    def invite(self, game: Game, code: str, uses: int = 1, infinite: bool = False) -> None:
        game.ledger.run(lambda tx: SqlAccounts(tx).put_invite(InviteCode(code, uses, infinite)))

    def uses(self, game: Game, code: str) -> int:
        return game.ledger.run(lambda tx: SqlAccounts(tx).invite(code)).uses_remaining

    @proves(
        "thing: Account key stored as its hash",
        "thing: Account key: UUK_ and 48 hex",
        "authentication 10: secrets stay out of logs",
        "credential: account key, and as exchange_code",
        "thing: User info",
        "GET /svc/api/GetUserInfo",
        "POST /svc/api/Register",
        "registering 5: the only copy of the key",
    )
    def test_the_reply_is_the_only_copy_of_the_key(self) -> None:
        with capturedLogs() as events:
            page = self.register(Username="Ann_1")
        key = page.json["UUK"]
        self.assertRegex(key, r"\AUUK_[0-9a-f]{48}\Z")
        self.assertEqual(list(page.json), ["UUK"])
        rows = self.game.ledger.run(
            lambda tx: tx.exec_driver_sql("select * from account_keys").all()
        )
        self.assertEqual([row.key_hash for row in rows], [fingerprint(key)])
        self.assertNotIn(key, repr(events))
        info = self.game.browse("GET", "/svc/api/GetUserInfo", key=key).json
        self.assertRegex(info["UserId"], r"\AUID-[0-9a-f-]{36}\Z")
        self.assertEqual((info["Username"], info["IsAdmin"]), ("Ann_1", False))

    @proves("registering 1: the name")
    def test_a_name_is_trimmed_then_checked(self) -> None:
        self.assertEqual(self.register(Username="  Ann_1\t").status, 200)
        for name in ("ab", "a" * 17, "a b c", "ann-1", "änn1", "ann\x00", "", "ann\n1"):
            page = self.register(Username=name)
            self.assertEqual((page.status, page.json["error"]), (400, "username_invalid"), name)

    @proves("thing: Account", "username_invalid", "limit: CreateInvite uses; Username")
    @given(st.text(max_size=20))
    def test_only_three_to_sixteen_word_characters_are_names(self, text: str) -> None:
        try:
            name = rules.username(text)
        except Malformed as why:
            self.assertEqual(why.code, "username_invalid")
            self.assertIsNone(re.fullmatch(r"[A-Za-z0-9_]{3,16}", text.strip()))
        else:
            self.assertRegex(name, r"\A[A-Za-z0-9_]{3,16}\Z")

    @proves("thing: Account", "registering 1: the name", "username_taken")
    def test_a_taken_name_is_409_in_any_case(self) -> None:
        self.register(Username="Ann_1")
        page = self.register(Username="aNN_1")
        self.assertEqual((page.status, page.json["error"]), (409, "username_taken"))

    @proves(
        "convention 4: unparseable JSON, HTML pages",
        "unparseable JSON on seven management routes",
        "bad_request (Register, RenameUser, CreateInvite)",
    )
    def test_wrong_types_and_bad_json_are_bad_request(self) -> None:
        for body in (
            {"Username": 7},
            {},
            {"Username": None},
            {"Username": "Ann_1", "InviteCode": 5},
            {"Username": ["a"]},
        ):
            page = self.game.browse("POST", "/svc/api/Register", json=body)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        for data in (
            b"{",
            b'"text"',
            b"7",
            b"[",
            b'{"Username": "Ann_1", "x": NaN}',
            b"[" * 100_000,
            b'{"Username":"\\ud800"}',
            b"\xff\xfe",
        ):
            page = self.game.browse("POST", "/svc/api/Register", data=data)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))

    @proves("registering 2: the mode", "registration_closed; a bad name wins")
    def test_an_invalid_name_is_reported_before_closed_registration(self) -> None:
        game = Game(self, REGISTRATION_MODE="NONE")
        self.assertEqual(self.register(game, Username="a").json["error"], "username_invalid")
        page = self.register(game, Username="Ann_1")
        self.assertEqual((page.status, page.json["error"]), (400, "registration_closed"))

    @proves("registering 4: unset mode is an empty 500")
    def test_an_unset_or_wrong_mode_is_an_empty_500(self) -> None:
        for environ in ({"REGISTRATION_MODE": ""}, {"REGISTRATION_MODE": "open"}):
            page = self.register(Game(self, **environ), Username="Ann_1")
            self.assertEqual((page.status, page.body), (500, b""))

    @proves("state: Invite code: one use a registration, revoked", "registering 2: the mode")
    def test_an_invite_code_is_spent_once(self) -> None:
        game = Game(self, REGISTRATION_MODE="INVITECODE")
        self.invite(game, "ABCD-EFGH-JKMN")
        self.assertEqual(
            self.register(game, Username="Ann_1", InviteCode=" ABCD-EFGH-JKMN ").status, 200
        )
        page = self.register(game, Username="Bob_1", InviteCode="ABCD-EFGH-JKMN")
        self.assertEqual((page.status, page.json["error"]), (401, "invite_invalid"))
        self.assertEqual(self.uses(game, "ABCD-EFGH-JKMN"), 0)

    @proves("registering 3: one transaction", "invite_invalid")
    def test_a_wrong_code_is_reported_before_a_taken_name(
        self,
    ) -> None:
        game = Game(self, REGISTRATION_MODE="INVITECODE")
        game.player("Ann_1")
        self.invite(game, "own-code", uses=2)
        for code in (None, "", "  ", "wrong", "OWN-CODE", "x" * 500, "\x00"):
            page = self.register(game, Username="Ann_1", InviteCode=code)
            self.assertEqual((page.status, page.json["error"]), (401, "invite_invalid"), code)
        self.assertEqual(self.register(game, Username="Ann_1", InviteCode="own-code").status, 409)
        self.assertEqual(self.uses(game, "own-code"), 2)

    def test_generated_codes_ignore_case_and_infinite_codes_last(self) -> None:
        game = Game(self, REGISTRATION_MODE="INVITECODE")
        self.invite(game, "ABCD-EFGH-JKMN", infinite=True, uses=0)
        for name in ("Ann_1", "Bob_1"):
            self.assertEqual(
                self.register(game, Username=name, InviteCode="abcd-efgh-jkmn").status, 200
            )

    @proves("registering 2: the mode")
    def test_registration_mode_open_ignores_the_invite_code(self) -> None:
        self.assertEqual(self.register(Username="Ann_1", InviteCode="whatever").status, 200)


class RegistrationStatusTests(SynchronousTestCase):
    @proves("thing: Registration mode", "GET /svc/api/RegistrationStatus")
    def test_registration_status_shows_the_mode_or_nothing_when_unset(self) -> None:
        path = "/svc/api/RegistrationStatus"
        self.assertEqual(Game(self).browse("GET", path).json, {"RegistrationMode": "OPEN"})
        self.assertEqual(Game(self, REGISTRATION_MODE="").browse("GET", path).json, {})
        self.assertEqual(
            Game(self, REGISTRATION_MODE="odd").browse("GET", path).json,
            {"RegistrationMode": "odd"},
        )

    @proves("state: Registration mode: memory only", "POST /svc/api/RegistrationStatus")
    def test_an_admin_can_set_only_valid_registration_modes(self) -> None:
        game = Game(self)
        admin = game.player("Boss_1", admin=True)
        page = game.browse(
            "POST",
            "/svc/api/RegistrationStatus",
            key=admin.key,
            json={"RegistrationStatus": "NONE"},
        )
        self.assertEqual((page.status, page.json), (200, {"RegistrationMode": "NONE"}))
        self.assertEqual(
            game.browse("GET", "/svc/api/RegistrationStatus").json, {"RegistrationMode": "NONE"}
        )
        for body in ({"RegistrationStatus": "none"}, {}, {"RegistrationStatus": 1}, []):
            page = game.browse("POST", "/svc/api/RegistrationStatus", key=admin.key, json=body)
            self.assertEqual((page.status, page.body), (400, b""))


class AdminTests(SynchronousTestCase):
    """Admin routes reject proxied requests first, then wrong keys, then keys of other accounts.

    Spec: 1 §5.4.
    """

    def setUp(self) -> None:
        self.game = Game(self)
        self.admin = self.game.player("Boss_1", admin=True)
        self.ann = self.game.player("Ann_1")

    @proves(
        "private mode: every route answers a direct caller, admin routes want the admin key",
        "label: admin key",
        "authentication 4: admin check",
        "credential: admin key",
        "credentials: Management API",
    )
    def test_refusals_come_in_the_order_proxy_key_admin_right(self) -> None:
        path = "/svc/api/GetAllUsers"
        for headers, key, status in (
            (PROXY, self.admin.key, 403),
            (PROXY, None, 403),
            (None, None, 401),
            (None, "UUK_" + "0" * 48, 401),
            (None, self.ann.key, 403),
            (None, self.admin.key, 200),
        ):
            page = self.game.browse("GET", path, key=key, headers=headers)
            self.assertEqual(page.status, status)
        twice = {"x-svc-user-api-key": [self.admin.key, self.admin.key]}
        self.assertEqual(self.game.browse("GET", path, headers=twice).status, 401)

    @proves("GET /svc/api/GetAllUsers")
    def test_the_list_of_all_users_has_each_name_and_id(self) -> None:
        users = self.game.browse("GET", "/svc/api/GetAllUsers", key=self.admin.key).json["Users"]
        self.assertIn({"Username": "Ann_1", "UserId": self.ann.id}, users)

    @proves("GET /svc/api/DashboardAccounts")
    def test_accounts_come_in_pages_without_whole_hashes(self) -> None:
        for n in range(101):
            self.game.player(f"many_{n}")
        page = self.game.browse("GET", "/svc/api/DashboardAccounts", key=self.admin.key)
        self.assertEqual((len(page.json["accounts"]), page.json["nextOffset"]), (100, 100))
        self.assertEqual(page.headers["cache-control"], "no-store")
        ids = [entry["id"] for entry in page.json["accounts"]]
        self.assertEqual(ids, sorted(ids))
        rest = self.game.browse(
            "GET", "/svc/api/DashboardAccounts?offset=100", key=self.admin.key
        ).json
        self.assertEqual((len(rest["accounts"]), rest["nextOffset"]), (3, None))
        exactly = self.game.browse("GET", "/svc/api/DashboardAccounts?offset=3", key=self.admin.key)
        self.assertEqual((len(exactly.json["accounts"]), exactly.json["nextOffset"]), (100, None))
        last = self.game.browse(
            "GET", "/svc/api/DashboardAccounts?offset=10000000", key=self.admin.key
        )
        self.assertEqual(last.json, {"accounts": [], "nextOffset": None})
        every = {entry["id"]: entry for entry in page.json["accounts"] + rest["accounts"]}
        self.assertEqual(every[self.ann.id]["keyFingerprint"], fingerprint(self.ann.key)[:16])
        for offset in ("-1", "x", "10000001", "1.5", "", "9" * 40):
            bad = self.game.browse(
                "GET", f"/svc/api/DashboardAccounts?offset={offset}", key=self.admin.key
            )
            self.assertEqual((bad.status, bad.body), (400, b""))

    @proves("POST /svc/api/RenameUser")
    def test_rename_takes_account_and_characters_together(self) -> None:
        self.game.browse("GET", "/character", token=self.ann.token)
        page = self.game.browse(
            "POST",
            "/svc/api/RenameUser",
            key=self.admin.key,
            json={"Username": "aNN_1", "NewUsername": " Zoe_1 "},
        )
        self.assertEqual(
            page.json, {"UserId": self.ann.id, "OldUsername": "Ann_1", "Username": "Zoe_1"}
        )
        self.assertEqual(
            self.game.browse("GET", "/character", token=self.ann.token).json[0]["name"], "Zoe_1"
        )

    def test_the_chat_gets_a_rename_whose_admin_has_left(self) -> None:
        news: list[Renamed] = []
        self.game.parts.news.renamed.connect(news.append)
        commit: Deferred[None] = Deferred()
        write = self.game.ledger.write

        def slow(work: Any, scope: Any) -> Any:
            return commit.addCallback(lambda _: write(work, scope))

        self.patch(self.game.ledger, "write", slow)
        body = json.dumps({"UserId": self.ann.id, "NewUsername": "Zoe_1"}).encode()
        head = Headers({"x-svc-user-api-key": [self.admin.key]})
        request = HttpRequest("POST", b"/svc/api/RenameUser", b"", head, "127.0.0.1", body)
        pending = maybeDeferred(self.game.door.answer, request)
        pending.cancel()
        self.failureResultOf(pending, CancelledError)
        commit.callback(None)
        self.assertEqual(news, [Renamed(self.ann.id, "Zoe_1")])

    @proves(
        "POST /svc/api/RenameUser",
        "bad_request (Register, RenameUser, CreateInvite)",
        "not_found (RenameUser); two namesakes match neither",
        "username_taken",
    )
    def test_a_rename_checks_body_name_account_and_taken_in_order(self) -> None:
        for body, status, code in (
            ({"UserId": self.ann.id}, 400, "bad_request"),
            ({"NewUsername": "Zoe_1"}, 400, "bad_request"),
            ({"UserId": 7, "NewUsername": "Zoe_1"}, 400, "bad_request"),
            ({"UserId": "UID-none", "NewUsername": "a"}, 400, "username_invalid"),
            ({"UserId": "UID-none", "NewUsername": "Zoe_1"}, 404, "not_found"),
            ({"UserId": self.ann.id, "NewUsername": "BOSS_1"}, 409, "username_taken"),
        ):
            page = self.game.browse("POST", "/svc/api/RenameUser", key=self.admin.key, json=body)
            self.assertEqual((page.status, page.json["error"]), (status, code))
        own = self.game.browse(
            "POST",
            "/svc/api/RenameUser",
            key=self.admin.key,
            json={"UserId": self.ann.id, "NewUsername": "ANN_1"},
        )
        self.assertEqual(own.json["Username"], "ANN_1")

    @proves(
        "not_found (RenameUser); two namesakes match neither",
        "not_found: two old namesakes match neither",
    )
    def test_a_name_shared_by_two_old_accounts_matches_neither(self) -> None:
        def old(tx: Any) -> None:
            for name in ("Twin", "tWIN"):
                tx.execute(ACCOUNTS.insert().values(id=f"UID-{name}", username=name, created_at=0))

        self.game.ledger.run(old)
        page = self.game.browse(
            "POST",
            "/svc/api/RenameUser",
            key=self.admin.key,
            json={"Username": "twin", "NewUsername": "Zoe_1"},
        )
        self.assertEqual(page.json["error"], "not_found")
        taken = self.game.browse("POST", "/svc/api/Register", json={"Username": "TWIN"})
        self.assertEqual(taken.json["error"], "username_taken")

    @proves("POST /svc/api/GenerateJWTForUserId")
    def test_an_admin_gets_a_player_token_for_any_id(self) -> None:
        page = self.game.browse(
            "POST", "/svc/api/GenerateJWTForUserId", key=self.admin.key, json={"UserId": "UID-x"}
        )
        self.assertEqual(self.game.parts.tokens.verify(page.json["JWT"]), "UID-x")
        for body in ({}, {"UserId": 7}, {"UserId": ""}, []):
            page = self.game.browse(
                "POST", "/svc/api/GenerateJWTForUserId", key=self.admin.key, json=body
            )
            self.assertEqual(page.status, 400)

    @proves("GET /svc/api/UsernameAvailable", "username_invalid")
    def test_username_available_is_always_200(self) -> None:
        ask = self.game.browse
        self.assertEqual(
            ask("GET", "/svc/api/UsernameAvailable?Username=Free_1").json, {"available": True}
        )
        for query, code in (
            ("?Username=ann_1", "username_taken"),
            ("", "username_invalid"),
            ("?Username=a", "username_invalid"),
        ):
            page = ask("GET", f"/svc/api/UsernameAvailable{query}")
            self.assertEqual(
                (page.status, page.json["available"], page.json["error"]), (200, False, code)
            )
        self.assertEqual(
            page.json["message"], "a username has 3 to 16 letters, digits or underscores"
        )
