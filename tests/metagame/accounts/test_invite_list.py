"""The invites of the dashboard: notes, makers, expiry, users, and many codes from one request."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.times import iso
from svcserver.metagame.accounts.invites import DAY_S, MAX_LISTED, MAX_USERS
from svcserver.metagame.accounts.rules import InviteCode
from svcserver.metagame.accounts.store import SqlAccounts
from tests.support.browser import Page
from tests.support.game import START, Game
from tests.support.proves import proves


class InviteListTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, REGISTRATION_MODE="INVITECODE")
        self.key = self.game.player("Boss_1", admin=True).key

    def ask(self, method: str, **sent: Any) -> Page:
        return self.game.browse(method, "/svc/api/DashboardInvites", key=self.key, **sent)

    def make(self, **fields: Any) -> list[str]:
        codes: list[str] = self.ask("POST", json=fields).json["codes"]
        return codes

    def listed(self) -> list[Any]:
        invites: list[Any] = self.ask("GET").json["invites"]
        return invites

    def register(self, name: str, code: str) -> Page:
        body = {"Username": name, "InviteCode": code}
        return self.game.browse("POST", "/svc/api/Register", json=body)

    @proves("GET DashboardInvites", "POST DashboardInvites")
    def test_a_code_has_its_note_maker_expiry_and_users(self) -> None:
        [code] = self.make(Uses=2, Note="for Bob <b>", Days=7)
        self.assertEqual(self.register("Bob_1", code.lower()).status, 200)
        entry = {
            "code": code,
            "note": "for Bob <b>",
            "madeBy": "Boss_1",
            "madeAt": iso(START),
            "expiresAt": iso(START + 7 * DAY_S),
            "usesRemaining": 1,
            "infiniteUses": False,
            "usable": True,
            "uses": 1,
            "users": [{"name": "Bob_1", "at": iso(START)}],
        }
        self.assertEqual(self.ask("GET").json, {"invites": [entry], "more": False})

    def test_new_uses_keep_a_codes_note_maker_and_expiry(self) -> None:
        [code] = self.make(Note="for Bob", Days=7)
        [before] = self.listed()
        self.game.clock.advance(60)
        body = {"NewInviteCode": code, "Uses": 5}
        path = "/svc/api/RegisterInviteCode"
        self.assertEqual(self.game.browse("POST", path, key=self.key, json=body).status, 200)
        self.assertEqual(self.listed(), [{**before, "usesRemaining": 5}])

    def test_an_expired_code_makes_no_account(self) -> None:
        [code] = self.make(Days=1)
        self.game.clock.advance(DAY_S)
        page = self.register("Bob_1", code)
        self.assertEqual((page.status, page.json["error"]), (401, "invite_invalid"))
        page = self.game.browse("POST", "/launcher/invite", json={"InviteCode": code})
        self.assertEqual(page.json, {"invite": "expired"})
        self.assertFalse(self.listed()[0]["usable"])

    def test_usable_codes_come_first_and_the_newest_of_each_kind(self) -> None:
        [used] = self.make(Note="used")
        self.register("Bob_1", used)
        self.game.clock.advance(1)
        self.make(Note="expired", Days=1)
        self.game.clock.advance(DAY_S)
        self.make(Note="older")
        self.game.clock.advance(1)
        self.make(Note="newer")
        notes = [entry["note"] for entry in self.listed()]
        self.assertEqual(notes, ["newer", "older", "expired", "used"])

    def test_many_codes_are_different_and_have_one_audit_row(self) -> None:
        codes = self.make(Count=50, Uses=3, Note="fair", Days=30, Reason="open evening")
        self.assertEqual(len(set(codes)), 50)
        self.assertEqual({entry["usesRemaining"] for entry in self.listed()}, {3})
        audit = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.key).json["rows"]
        [row] = [row for row in audit if row["action"] == "create invites"]
        self.assertEqual((row["reason"], row["target"]), ("open evening", f"{codes[0][:4]}-..."))
        self.assertEqual(row["after"]["count"], 50)
        self.assertNotIn(codes[0], repr(audit))

    def test_invalid_invite_options_are_refused(self) -> None:
        for body in (
            {"Count": 0},
            {"Count": 51},
            {"Uses": 0},
            {"Days": -1},
            {"Days": 366},
            {"Note": "x" * 65},
            {"Note": "a\u202eb"},
        ):
            page = self.ask("POST", json=body)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"), body)
        self.assertEqual(self.listed(), [])

    def test_a_revoked_code_and_a_deleted_account_leave_no_use(self) -> None:
        first, second = self.make(Count=2, Uses=5)
        for name, code in (("Bob_1", first), ("Cleo_1", first), ("Dan_1", second)):
            self.register(name, code)
        bob = self.game.ledger.run(lambda tx: SqlAccounts(tx).named("Bob_1"))
        body = {"Account": bob.id, "Name": "Bob_1"}
        deleted = self.game.browse("POST", "/svc/api/DashboardDelete", key=self.key, json=body)
        self.assertEqual(deleted.status, 200, deleted.body)
        path = f"/svc/api/InviteCode/{second}"
        self.assertEqual(self.game.browse("DELETE", path, key=self.key).status, 200)
        [entry] = self.listed()
        self.assertEqual([user["name"] for user in entry["users"]], ["Cleo_1"])
        uses = self.game.ledger.run(lambda tx: SqlAccounts(tx).invite_uses([second], 9))
        self.assertEqual(uses, {})

    def test_long_lists_are_cut(self) -> None:
        def fill(tx: Any) -> None:
            accounts = SqlAccounts(tx)
            for number in range(MAX_LISTED + 1):
                accounts.put_invite(InviteCode(f"code {number:04}", 1, False))
            for number in range(MAX_USERS + 5):
                accounts.note_use("code 0000", f"account {number}", number)

        self.game.ledger.run(fill)
        page = self.ask("GET").json
        self.assertEqual((len(page["invites"]), page["more"]), (MAX_LISTED, True))
        self.assertEqual((page["invites"][0]["uses"], page["invites"][0]["users"]), (25, []))
        uses = self.game.ledger.run(lambda tx: SqlAccounts(tx).invite_uses(["code 0000"], 3))
        self.assertEqual([at for _, at in uses["code 0000"].newest], [24, 23, 22])
