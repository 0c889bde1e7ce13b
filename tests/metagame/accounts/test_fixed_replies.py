"""The replies of account routes that are the same for every caller. Spec: 1 §4 Login."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.support.game import START, Game
from tests.support.proves import proves

LATER = "2085-09-09T01:01:01.703Z"
STARTED = "2026-09-21T14:13:20.000Z"


class FixedReplyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")
        self.assertEqual(START, 1_790_000_000)  # the replies show this time as STARTED

    def ask(self, method: str, path: str, **sent: Any) -> Any:
        page = self.game.browse(method, path, token=self.ann.token, **sent)
        self.assertEqual(page.status, 200, path)
        return page.json

    @proves("POST /account/api/oauth/token")
    def test_a_login_returns_the_documented_reply(self) -> None:
        reply = self.ask("POST", "/account/api/oauth/token", json={"exchange_code": self.ann.key})
        reply.pop("access_token")
        self.assertEqual(
            reply,
            {
                "token_type": "bearer",
                "expires_in": 86400,
                "expires_at": LATER,
                "features": ["Achievements", "AntiCheat", "Ecom", "Voice"],
                "organization_id": "o-krlzxj88qrtb69fredeuaf887bl5az",
                "product_id": "prod-jackal",
                "sandbox_id": "jackal",
                "deployment_id": "53565ba467df4edbb6f5a3d939a8b4f2",
                "refresh_token": "unused",
                "refresh_expires_at": LATER,
                "account_id": self.ann.id,
            },
        )

    @proves("GET /account/api/oauth/verify")
    def test_verify_returns_the_documented_reply_to_a_valid_token(self) -> None:
        self.assertEqual(
            self.ask("GET", "/account/api/oauth/verify"),
            {
                "active": True,
                "scope": "basic_profile friends_list presence",
                "token_type": "bearer",
                "expires_in": 86400,
                "expires_at": LATER,
                "account_id": self.ann.id,
                "client_id": "xyza7891lhxMVYGCON7LgnKZZ8HQGD5H",
                "application_id": "fghi4567O03HROxEjwbn7kgXpBhnhWwv",
            },
        )

    @proves("POST /login", "PUT /gamesession/epic")
    def test_login_queue_and_game_session_reply_as_documented(self) -> None:
        ticket = self.ask("POST", "/login", json={"email": self.ann.id})
        self.assertEqual(
            ticket,
            {
                "error_code": "TicketRateOk",
                "message": "",
                "state": "OPEN",
                "timeout": 8000,
                "title": "",
            },
        )
        session = self.ask("PUT", "/gamesession/epic")["payload"]
        self.assertEqual(list(session), ["error_code", "sessionid", "sessionToken"])
        self.assertIsNone(session["error_code"])
        self.assertEqual(session["sessionToken"], self.ann.token)

    @proves("GET /account/api/public/account")
    def test_account_lookup_returns_the_callers_documented_record(self) -> None:
        self.assertEqual(
            self.ask("GET", "/account/api/public/account"),
            {
                "id": self.ann.id,
                "displayName": "Ann_1",
                "name": "",
                "lastName": "",
                "email": "",
                "failedLoginAttempts": 0,
                "lastLogin": STARTED,
                "numberOfDisplayNameChanges": 0,
                "ageGroup": "ADULT",
                "headless": False,
                "country": "US",
                "lastNameChange": STARTED,
                "preferredLanguage": "en",
                "canUpdateDisplayName": False,
                "tfaEnabled": False,
                "emailVerified": True,
                "minorVerified": False,
                "minorStatus": "NOT_MINOR",
            },
        )

    @proves("POST /account/mapping")
    def test_an_account_mapping_lists_only_accounts_that_exist(self) -> None:
        mappings = {self.ann.id: {"accountId": self.ann.id, "accountType": "native"}}
        reply = self.ask("POST", "/account/mapping", json={"ids": [self.ann.id, "UID-gone"]})
        self.assertEqual(
            reply,
            {
                "accountMappings": mappings,
                "code": "OK",
                "message": "",
                "payload": {"accountMappings": mappings},
            },
        )
