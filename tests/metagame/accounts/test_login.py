"""Log-in and tokens. Spec: 1 §4 Login and accounts, §5 Authentication."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Malformed
from svcserver.metagame.access.keys import load_private
from svcserver.metagame.accounts.login import AT_ONCE, NOBODYS_ID, ConcurrentLogins
from tests.support.game import GAME_SERVER_KEY, Game, signing_keys
from tests.support.proves import proves

TOKEN = "/account/api/oauth/token"
VERIFY = "/account/api/oauth/verify"


class LoginTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")

    @proves(
        "POST /account/api/oauth/token",
        "credential: account key, and as exchange_code",
        "login flow 1 to 4",
    )
    def test_the_key_is_exchanged_for_a_token_as_json_or_as_a_form(self) -> None:
        for sent in (
            {"json": {"exchange_code": self.ann.key}},
            {"data": {"exchange_code": self.ann.key}},
        ):
            page = self.game.browse("POST", TOKEN, **sent)
            self.assertEqual((page.status, page.json["account_id"]), (200, self.ann.id))
            self.assertEqual(self.game.parts.tokens.verify(page.json["access_token"]), self.ann.id)

    @proves(
        "thing: Player token",
        "authentication: player token RS256, 24 h",
        "limit: player token lifetime",
    )
    def test_the_token_carries_the_claims_of_the_contract(self) -> None:
        token = self.game.browse("POST", TOKEN, json={"exchange_code": self.ann.key}).json[
            "access_token"
        ]
        claims = jwt.decode(token, options={"verify_signature": False})
        self.assertEqual(jwt.get_unverified_header(token)["alg"], "RS256")
        self.assertEqual((claims["iss"], claims["aud"]), ("svc-metagame", "svc-metagame"))
        self.assertEqual(claims["userId"], self.ann.id)
        self.assertEqual(claims["exp"] - claims["iat"], 86400)

    @proves(
        "POST /account/api/oauth/token", "login flow 1 to 4", "unknown account key at login: 400"
    )
    def test_an_unknown_or_missing_key_is_an_empty_400(self) -> None:
        for body in (
            {},
            {"exchange_code": "UUK_" + "0" * 48},
            {"exchange_code": 7},
            {"exchange_code": ""},
            [],
        ):
            page = self.game.browse("POST", TOKEN, json=body)
            self.assertEqual((page.status, page.body), (400, b""))

    def test_unparseable_json_is_an_html_400(self) -> None:
        page = self.game.browse(
            "POST", TOKEN, data=b'{"exchange_code":', headers={"Content-Type": "application/json"}
        )
        self.assertEqual(page.status, 400)
        self.assertTrue(page.headers["content-type"].startswith("text/html"))

    @proves("convention 3: bodies and their limits", "limit: JSON body, form body")
    def test_a_form_beyond_100_kb_is_refused(self) -> None:
        page = self.game.browse("POST", TOKEN, data={"exchange_code": "x" * 110_000})
        self.assertEqual(page.status, 413)

    @proves("authentication 3: no login method")
    def test_without_a_login_method_there_is_only_a_log_line(self) -> None:
        for environ in (
            {"AUTH_MODE": ""},
            {"AUTH_MODE": "apikey"},
            {"AUTH_MODE": "NONE", "NODE_ENV": "production"},
        ):
            game = Game(self, **environ)
            with capturedLogs() as events:
                pending = game.browse.ask("POST", TOKEN, json={"exchange_code": self.ann.key})
            self.assertNoResult(pending)
            self.assertTrue(
                any("No login method configured!" in str(e["log_format"]) for e in events)
            )
            page = game.browse("GET", "/svc/api/GetUserInfo", key=self.ann.key)
            self.assertEqual((page.status, page.body), (500, b""))

    @proves("authentication 2: AUTH_MODE=NONE")
    def test_auth_mode_none_takes_the_code_as_the_account_id(self) -> None:
        game = Game(self, AUTH_MODE="NONE")
        page = game.browse("POST", TOKEN, json={"exchange_code": "UID-anyone"})
        self.assertEqual(page.json["account_id"], "UID-anyone")
        bob = game.player("Bob_1")
        self.assertEqual(
            game.browse("GET", "/svc/api/GetUserInfo", key=bob.id).json["Username"], "Bob_1"
        )
        for path in ("/svc-status", "/no/such/path", "/candidate"):
            for name in ("X-Forwarded-For", "Via", "Forwarded"):
                page = game.browse("GET", path, headers={name: "1.2.3.4"})
                self.assertEqual((page.status, page.body), (403, b""), path)
        self.assertEqual(game.browse("GET", "/no/such/path").status, 404)

    @proves(
        "DELETE /account/api/oauth/sessions/kill",
        "DELETE /account/api/oauth/sessions/kill/:token",
        "authentication 1: tokens are stateless",
    )
    def test_killing_sessions_is_acknowledged_without_effect(self) -> None:
        for path in (
            "/account/api/oauth/sessions/kill",
            f"/account/api/oauth/sessions/kill/{self.ann.token}",
        ):
            page = self.game.browse("DELETE", path)
            self.assertEqual((page.status, page.json), (200, {}))
        self.assertEqual(
            self.game.browse("GET", VERIFY, token=self.ann.token).json["account_id"], self.ann.id
        )

    @proves("POST /login")
    def test_the_login_queue_wants_the_callers_own_existing_account(self) -> None:
        def ask(email: Any, token: str) -> Any:
            return self.game.browse("POST", "/login", json={"email": email}, token=token)

        self.assertEqual(ask(self.ann.id, self.ann.token).status, 200)
        ghost = self.game.parts.tokens.sign("UID-gone")
        for email, token in (
            ("UID-other", self.ann.token),
            (None, self.ann.token),
            ("UID-gone", ghost),
        ):
            self.assertEqual(ask(email, token).status, 400)
        self.assertEqual(
            self.game.browse("POST", "/login", json={"email": self.ann.id}).status, 401
        )

    @proves("PUT /gamesession/epic", "login flow 1 to 4")
    def test_the_game_session_echoes_the_callers_bearer(self) -> None:
        page = self.game.browse("PUT", "/gamesession/epic", token=self.ann.token)
        self.assertEqual(page.json["payload"]["sessionToken"], self.ann.token)
        self.assertTrue(page.json["payload"]["sessionid"])
        self.assertEqual(
            self.game.browse("PUT", "/gamesession/epic", game_server=GAME_SERVER_KEY).status, 403
        )


class ConcurrentLoginTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.logins = ConcurrentLogins(self.clock)
        self.started: list[Deferred[None]] = []
        self.results = [self.begin() for _ in range(AT_ONCE + 2)]

    def begin(self) -> Deferred[None]:
        def look_up() -> Deferred[None]:
            self.started.append(Deferred())
            return self.started[-1]

        return Deferred.fromCoroutine(self.logins.run(look_up))

    def test_a_waiting_login_starts_one_turn_after_another_ends(self) -> None:
        self.assertEqual(len(self.started), AT_ONCE)
        self.started[0].callback(None)
        self.successResultOf(self.results[0])
        self.assertEqual(len(self.started), AT_ONCE)
        self.clock.advance(0)
        self.assertEqual(len(self.started), AT_ONCE + 1)

    def test_a_failed_login_lets_the_next_login_run(self) -> None:
        self.started[0].errback(Malformed("unknown"))
        self.failureResultOf(self.results[0], Malformed)
        self.clock.advance(0)
        self.assertEqual(len(self.started), AT_ONCE + 1)

    def test_a_cancelled_login_leaves_the_queue(self) -> None:
        for result in self.results[AT_ONCE:]:
            result.cancel()
            self.failureResultOf(result, CancelledError)
        for running in self.started:
            running.callback(None)
        self.clock.advance(0)
        again = [self.begin() for _ in range(AT_ONCE + 1)]
        self.assertEqual(len(self.started), 2 * AT_ONCE)
        again[-1].cancel()
        self.failureResultOf(again[-1], CancelledError)

    def test_a_queue_that_is_cancelled_late_frees_every_place(self) -> None:
        for running in self.started[:AT_ONCE]:
            running.callback(None)
        for result in self.results[AT_ONCE:]:
            result.cancel()
            self.failureResultOf(result, CancelledError)
        self.clock.advance(0)
        for _ in range(AT_ONCE):
            self.begin()
        self.assertEqual(len(self.started), 2 * AT_ONCE)


class VerifyTests(SynchronousTestCase):
    @proves("GET /account/api/oauth/verify")
    def test_a_valid_token_names_its_account(self) -> None:
        game = Game(self)
        ann = game.player("Ann_1")
        page = game.browse("GET", VERIFY, token=ann.token)
        self.assertEqual(
            (page.status, page.json["active"], page.json["account_id"]), (200, True, ann.id)
        )
        self.assertGreater(page.json["expires_at"], "2080")

    @proves("label: optional token", "GET /account/api/oauth/verify")
    def test_verify_without_a_valid_token_returns_the_placeholder(self) -> None:
        game = Game(self)
        for headers in (
            {},
            {"Authorization": "Bearer x.y.z"},
            {"Authorization": "Basic abc"},
            {"Authorization": ""},
        ):
            page = game.browse("GET", VERIFY, headers=headers)
            self.assertEqual((page.status, page.json["account_id"]), (200, NOBODYS_ID))

    @proves("GET /account/api/oauth/verify", "VERIFY_STUB_ACCOUNT")
    def test_verify_stub_account_gives_everyone_the_placeholder(self) -> None:
        game = Game(self, VERIFY_STUB_ACCOUNT="1")
        page = game.browse("GET", VERIFY, token=game.player("Ann_1").token)
        self.assertEqual(page.json["account_id"], NOBODYS_ID)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class BadTokenTests(SynchronousTestCase):
    """A token route answers 401 to every token that this host did not sign."""

    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")
        now = int(self.game.clock.seconds())
        self.claims: dict[str, Any] = {
            "userId": self.ann.id,
            "iat": now,
            "exp": now + 86400,
            "iss": "svc-metagame",
            "aud": "svc-metagame",
        }
        self.private = load_private(signing_keys()[0])
        self.public = base64.b64decode(signing_keys()[1])

    def status(self, token: str) -> int:
        return self.game.browse("GET", "/accountinfo", token=token).status

    def sign(self, **changes: Any) -> str:
        claims = {key: value for key, value in (self.claims | changes).items() if value is not None}
        return jwt.encode(claims, self.private, algorithm="RS256")

    @proves("credential: player token, bad ones of every kind")
    def test_a_valid_token_is_accepted_after_bearer_in_any_case(self) -> None:
        for word in ("Bearer", "bearer", "BEARER", "bEaReR"):
            page = self.game.browse(
                "GET", "/accountinfo", headers={"Authorization": f"{word} {self.sign()}"}
            )
            self.assertEqual(page.json["username"], "Ann_1")

    @proves(
        "authentication: player token RS256, 24 h",
        "credential: player token, bad ones of every kind",
        "limit: player token lifetime",
    )
    def test_an_expired_token_is_401_even_if_it_is_cached(self) -> None:
        self.assertEqual(self.status(self.sign(exp=self.claims["iat"] - 1)), 401)
        self.assertEqual(self.status(self.ann.token), 200)
        self.game.clock.advance(86400)
        self.assertEqual(self.status(self.ann.token), 401)

    @proves("credential: player token, bad ones of every kind")
    def test_a_token_with_wrong_issuer_audience_or_claims_is_401(self) -> None:
        for changes in (
            {"iss": "other"},
            {"aud": "other"},
            {"exp": None},
            {"userId": None},
            {"userId": ["a"]},
            {"userId": ""},
            {"exp": "soon"},
            {"iss": None},
            {"aud": None},
        ):
            self.assertEqual(self.status(self.sign(**changes)), 401, changes)

    @proves(
        "authentication: player token RS256, 24 h",
        "credential: player token, bad ones of every kind",
    )
    def test_a_token_of_a_foreign_key_or_weak_algorithm_is_401(self) -> None:
        foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        unsigned = f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(self.claims)}."
        head = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(self.claims)}"
        mac = hmac.new(self.public, head.encode(), hashlib.sha256).digest()
        confused = f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        for token in (jwt.encode(self.claims, foreign, algorithm="RS256"), unsigned, confused):
            self.assertEqual(self.status(token), 401)

    @proves(
        "label: token",
        "credential: player token, bad ones of every kind",
        "missing or invalid player credential: 401",
    )
    def test_a_truncated_or_malformed_token_is_refused(self) -> None:
        whole = self.sign()
        for token in (
            whole[:-1],
            whole[:40],
            "",
            "a",
            "a.b",
            "a.b.c",
            "." * 50,
            "x" * 9000,
            whole + "A" * 5000,
        ):
            self.assertEqual(self.status(token), 401)

    @proves(
        "credential: player token, bad ones of every kind",
        "missing or invalid player credential: 401",
    )
    def test_a_missing_or_repeated_authorization_header_is_401(self) -> None:
        self.assertEqual(self.game.browse("GET", "/accountinfo").status, 401)
        twice = {"Authorization": [f"Bearer {self.sign()}", f"Bearer {self.sign()}"]}
        self.assertEqual(self.game.browse("GET", "/accountinfo", headers=twice).status, 401)


class GameServerTests(SynchronousTestCase):
    """Credentials of game servers. Spec: 1 §5.5 to §5.7."""

    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")

    @proves("label: token", "credential: game-server key")
    def test_the_key_alone_passes_a_token_route(self) -> None:
        self.assertEqual(
            self.game.browse("GET", "/eventstats/", game_server=GAME_SERVER_KEY).status, 200
        )

    @proves("authentication 5: game-server key: local callers only", "credential: game-server key")
    def test_a_wrong_key_is_401(self) -> None:
        self.assertEqual(self.game.browse("GET", "/eventstats/", game_server="nope").status, 401)

    @proves(
        "authentication 5: game-server key: local callers only",
        "authentication 9: proxied requests",
    )
    def test_any_proxy_header_is_403_before_the_key_is_looked_at(self) -> None:
        for name in (
            "X-Svc-Gateway",
            "X-Forwarded-For",
            "Forwarded",
            "X-Real-IP",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "Via",
        ):
            for key in (GAME_SERVER_KEY, "nope"):
                page = self.game.browse("GET", "/eventstats/", game_server=key, headers={name: ""})
                self.assertEqual(page.status, 403, name)

    def test_a_game_server_with_a_players_token_acts_for_the_player(self) -> None:
        page = self.game.browse(
            "GET", "/accountinfo", game_server=GAME_SERVER_KEY, token=self.ann.token
        )
        self.assertEqual(page.json["accountId"], self.ann.id)

    @proves("authentication 7: bad forwarded token is 500", "bad forwarded token: 500")
    def test_a_bad_forwarded_token_is_500(self) -> None:
        expired = self.ann.token
        self.game.clock.advance(86401)
        for header in (f"Bearer {expired}", "Bearer garbage", "Basic abc", "x"):
            page = self.game.browse(
                "GET",
                "/accountinfo",
                game_server=GAME_SERVER_KEY,
                headers={"Authorization": header},
            )
            self.assertEqual(page.status, 500)
            self.assertTrue(page.headers["content-type"].startswith("text/html"))

    @proves("label: player")
    def test_a_game_server_key_without_a_token_is_403_on_player_routes(self) -> None:
        page = self.game.browse("GET", "/character", game_server=GAME_SERVER_KEY)
        self.assertEqual((page.status, page.body), (403, b""))
