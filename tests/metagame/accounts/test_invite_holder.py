"""The checks of names and codes for holders of an invite, who have no account yet."""

from typing import Any

from twisted.internet.defer import gatherResults
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.headers import GATEWAY
from svcserver.metagame.accounts.management.acts import GUESSES
from svcserver.metagame.accounts.rules import InviteCode
from svcserver.metagame.accounts.store import SqlAccounts
from tests.support.browser import Page
from tests.support.game import Game
from tests.support.proves import proves

CODE = "ABCD-EFGH-JKMN"
SECRET = "g" * 40
FREE = {"available": True}


class NameFreeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = self.host("INVITECODE")

    def host(self, mode: str) -> Game:
        """Return a host with the account Ann_1 and an invite that can be used twice."""
        game = Game(self, REGISTRATION_MODE=mode, GATEWAY_SECRET=SECRET)
        game.player("Ann_1")
        game.ledger.run(lambda tx: SqlAccounts(tx).put_invite(InviteCode(CODE, 2, False)))
        return game

    def ask(
        self, name: Any, code: Any = CODE, game: Game | None = None, at: str = "198.51.100.7"
    ) -> Page:
        """Check a name through the gateway, from the given address."""
        sent = {"Username": name} if code is None else {"Username": name, "InviteCode": code}
        headers = {GATEWAY: SECRET, "X-Forwarded-For": at}
        return (game or self.game).browse("POST", "/launcher/name-free", json=sent, headers=headers)

    def why(self, *bodies: Any, **more: Any) -> str:
        page = self.ask(*bodies, **more)
        reply = page.json
        self.assertEqual((page.status, reply["available"]), (200, False), page)
        code: str = reply["error"]
        return code

    @proves("POST /launcher/name-free | none | bad_request")
    def test_a_name_check_replies_as_registration_and_spends_no_invite(self) -> None:
        for name in ("Bo_1", " Bo_1 "):
            page = self.ask(name)
            self.assertEqual((page.status, page.json), (200, FREE))
            self.assertEqual(page.headers["cache-control"], "no-store")
        self.assertEqual(self.ask("Bo_1", CODE.lower()).json, FREE)
        self.assertEqual(self.why("aNN_1"), "username_taken")
        self.game.described.odd = True
        self.assertEqual(self.why("a b"), "username_invalid")
        left = self.game.ledger.run(lambda tx: SqlAccounts(tx).invite(CODE)).uses_remaining
        self.assertEqual(left, 2)

    def test_wrong_code_is_refused_and_a_taken_name_reported(self) -> None:
        for code in (None, "", "ABCD-EFGH-JKMX", "x" * 500, "\x00", "%"):
            at = f"2001:db8::{len(str(code)):x}"
            self.assertEqual(self.why("Ann_1", code, at=at), "username_taken")
            self.assertEqual(self.why("Bo_1", code, at=at), "invite_invalid")

    def test_a_code_that_is_used_up_opens_nothing(self) -> None:
        for name in ("Bo_1", "Cy_1"):
            sent = {"Username": name, "InviteCode": CODE}
            self.assertEqual(self.game.browse("POST", "/svc/api/Register", json=sent).status, 200)
        self.assertEqual(self.why("Di_1"), "invite_invalid")

    def test_after_many_guesses_even_a_right_code_is_refused(self) -> None:
        for number in range(GUESSES.limit):
            name, error = (("Ann_1", "username_taken"), ("Bo_1", "invite_invalid"))[number % 2]
            self.assertEqual(self.why(name, "ABCD-EFGH-JKMX"), error)
        for code in ("ABCD-EFGH-JKMX", CODE):
            page = self.ask("Ann_1", code)
            self.assertEqual((page.status, page.headers["retry-after"]), (429, "600"))
        # other addresses are not limited
        self.assertEqual(self.ask("Bo_1", at="198.51.100.8").json, FREE)
        self.game.clock.advance(3601)
        self.assertEqual(self.ask("Bo_1").json, FREE)

    def test_guesses_at_once_are_counted_one_by_one(self) -> None:
        headers = {GATEWAY: SECRET, "X-Forwarded-For": "198.51.100.7"}
        sent = {"Username": "Ann_1", "InviteCode": "wrong"}
        pending = [
            self.game.browse.ask("POST", "/launcher/name-free", json=sent, headers=headers)
            for _ in range(3 * GUESSES.limit)
        ]
        pages = self.successResultOf(gatherResults(pending))
        answered = [page.status for page in pages].count(200)
        self.assertEqual(answered, GUESSES.limit)

    def test_the_holder_of_an_invite_may_check_many_names(self) -> None:
        for number in range(3 * GUESSES.limit):
            self.assertEqual(self.ask(f"Bo_{number}").json, FREE)
            self.assertEqual(self.why("Ann_1"), "username_taken")

    def test_an_open_host_answers_as_many_names_as_registering(self) -> None:
        host = self.host("OPEN")
        self.assertEqual(self.why("Ann_1", None, host), "username_taken")
        for _ in range(GUESSES.limit - 1):
            self.assertEqual(self.ask("Bo_1", CODE, host).json, FREE)
        self.assertEqual(self.ask("Ann_1", CODE, host).status, 429)

    def test_a_name_check_is_refused_unless_invites_register_accounts(self) -> None:
        self.assertEqual(self.why("Ann_1", game=self.host("NONE")), "registration_closed")
        page = self.ask("Ann_1", game=self.host("open"))
        self.assertEqual((page.status, page.body), (500, b""))

    def test_a_malformed_name_check_is_400_and_no_code_is_logged(self) -> None:
        for sent in ({}, [], {"Username": 7}, {"Username": "Bo_1", "InviteCode": [CODE]}):
            page = self.game.browse("POST", "/launcher/name-free", json=sent)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        for data in (b"", b"{", b'{"Username":"\\ud800"}', b"[" * 100_000, b"\xff"):
            page = self.game.browse("POST", "/launcher/name-free", data=data)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        with capturedLogs() as events:
            self.ask("Bo_1")
            self.why("Bo_1", "ABCD-EFGH-JKMX")
        self.assertNotIn("ABCD", repr(events))


class InviteStateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = self.host("INVITECODE")

    def host(self, mode: str) -> Game:
        """Return a host with an invite that can be used once."""
        game = Game(self, REGISTRATION_MODE=mode, GATEWAY_SECRET=SECRET)
        game.ledger.run(lambda tx: SqlAccounts(tx).put_invite(InviteCode(CODE, 1, False)))
        return game

    def ask(self, code: Any, game: Game | None = None, at: str = "198.51.100.7") -> Page:
        """Check a code through the gateway, from the given address."""
        headers = {GATEWAY: SECRET, "X-Forwarded-For": at}
        sent = {"InviteCode": code}
        return (game or self.game).browse("POST", "/launcher/invite", json=sent, headers=headers)

    def register(self) -> int:
        """Register with the code; return the status."""
        sent = {"Username": "Bo_1", "InviteCode": CODE}
        return self.game.browse("POST", "/svc/api/Register", json=sent).status

    @proves("POST /launcher/invite | none | bad_request")
    def test_code_is_valid_then_used_up_and_others_unknown(self) -> None:
        for code in (CODE, CODE.lower(), f" {CODE} "):
            page = self.ask(code)
            self.assertEqual((page.status, page.json), (200, {"invite": "valid"}))
            self.assertEqual(page.headers["cache-control"], "no-store")
        self.assertEqual(self.register(), 200)
        self.assertEqual(self.ask(CODE).json, {"invite": "used_up"})
        for code in ("", "ABCD-EFGH-JKMX", "x" * 500, "\0", "%"):
            self.assertEqual(self.ask(code).json, {"invite": "unknown"})
        self.game.ledger.run(lambda tx: SqlAccounts(tx).drop_invite(CODE))
        self.assertEqual(self.ask(CODE).json, {"invite": "unknown"})

    def test_wrong_codes_and_names_share_one_limit(self) -> None:
        for _ in range(GUESSES.limit + 1):
            self.assertEqual(self.ask(CODE).json, {"invite": "valid"})
        headers = {GATEWAY: SECRET, "X-Forwarded-For": "198.51.100.7"}
        sent = {"Username": "Bo_1", "InviteCode": "wrong"}
        self.game.browse("POST", "/launcher/name-free", json=sent, headers=headers)
        for _ in range(GUESSES.limit - 1):
            self.assertEqual(self.ask("ABCD-EFGH-JKMX").json, {"invite": "unknown"})
        for code in ("ABCD-EFGH-JKMX", CODE):
            page = self.ask(code)
            self.assertEqual((page.status, page.headers["retry-after"]), (429, "600"))
        self.assertEqual(self.ask(CODE, at="198.51.100.8").status, 200)

    def test_an_open_host_accepts_any_code_and_a_closed_host_none(self) -> None:
        open_host = self.host("OPEN")
        for _ in range(GUESSES.limit + 1):
            self.assertEqual(self.ask("any", open_host).json, {"invite": "valid"})
        page = self.ask(CODE, self.host("NONE"))
        self.assertEqual((page.status, page.json["error"]), (400, "registration_closed"))

    def test_malformed_check_is_a_bad_request_and_logs_no_code(self) -> None:
        for data in (b"", b"{}", b"[]", b"{", b'{"InviteCode":7}', b"[" * 100_000):
            page = self.game.browse("POST", "/launcher/invite", data=data)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        with capturedLogs() as events:
            self.ask(CODE)
            self.ask("ABCD-EFGH-JKMX")
        self.assertNotIn("ABCD", repr(events))
