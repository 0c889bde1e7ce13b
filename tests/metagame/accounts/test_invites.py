"""Invite codes that the owner creates. Spec: 1 §5."""

from typing import Any

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from tests.support.browser import Page
from tests.support.game import Game
from tests.support.proves import proves


class InviteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.key = self.game.player("Boss_1", admin=True).key

    def ask(self, method: str, path: str, **sent: Any) -> Page:
        return self.game.browse(method, f"/svc/api/{path}", key=self.key, **sent)

    @proves(
        "thing: Invite code",
        "state: Invite code: one use a registration, revoked",
        "DELETE /svc/api/InviteCode/:code",
        "GET /svc/api/InviteCodes",
        "POST /svc/api/CreateInvite",
    )
    def test_an_invite_code_is_created_listed_and_revoked(self) -> None:
        with capturedLogs() as events:
            code = self.ask("POST", "CreateInvite", json={"uses": 3, "name": "for Bob"}).json[
                "code"
            ]
        self.assertRegex(code, r"\A[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}\Z")
        self.assertNotIn(code, repr(events))
        shown = [formatEvent(event) for event in events]
        self.assertTrue([line for line in shown if line and "for Bob" in line], shown)
        listed = self.ask("GET", "InviteCodes").json["InviteCodes"]
        self.assertEqual(listed, [{"inviteCode": code, "usesRemaining": 3, "infiniteUses": False}])
        for _ in range(2):
            self.assertEqual(self.ask("DELETE", f"InviteCode/{code}").status, 200)
        self.assertEqual(self.ask("GET", "InviteCodes").json, {"InviteCodes": []})

    def test_a_code_without_options_has_one_use_and_no_note(self) -> None:
        with capturedLogs() as events:
            self.assertEqual(self.ask("POST", "CreateInvite", json={}).status, 200)
        listed = self.ask("GET", "InviteCodes").json["InviteCodes"]
        self.assertEqual([entry["usesRemaining"] for entry in listed], [1])
        self.assertTrue(
            [entry for entry in events if (formatEvent(entry) or "").endswith("note ''")]
        )

    def test_a_whole_number_may_be_written_with_a_point(self) -> None:
        code = self.ask("POST", "CreateInvite", data=b'{"uses": 2.0}').json["code"]
        own = b'{"NewInviteCode": "friends", "Uses": 3.0}'
        self.assertEqual(self.ask("POST", "RegisterInviteCode", data=own).status, 200)
        listed = self.ask("GET", "InviteCodes").json["InviteCodes"]
        uses = {entry["inviteCode"]: entry["usesRemaining"] for entry in listed}
        self.assertEqual(uses, {code: 2, "friends": 3})

    @proves(
        "POST /svc/api/CreateInvite",
        "bad_request (Register, RenameUser, CreateInvite)",
        "limit: CreateInvite uses; Username",
    )
    def test_create_refuses_wrong_uses_and_names(self) -> None:
        for body in (
            {"uses": 0},
            {"uses": 1001},
            {"uses": "5"},
            {"uses": True},
            {"uses": 1.5},
            {"name": 7},
            [],
        ):
            page = self.ask("POST", "CreateInvite", json=body)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        self.assertEqual(self.ask("POST", "CreateInvite", data=b"{").json["error"], "bad_request")

    @proves("POST /svc/api/RegisterInviteCode")
    def test_a_valid_own_code_is_stored_and_an_invalid_code_is_400(self) -> None:
        for uses in ({"Uses": 2}, {"InfiniteUses": True}):
            body = {"NewInviteCode": "friends"} | uses
            self.assertEqual(self.ask("POST", "RegisterInviteCode", json=body).status, 200)
        listed = self.ask("GET", "InviteCodes").json["InviteCodes"]
        self.assertEqual(
            listed, [{"inviteCode": "friends", "usesRemaining": 0, "infiniteUses": True}]
        )
        for body in (
            {"NewInviteCode": "x", "Uses": 0},
            {"NewInviteCode": "x"},
            {"Uses": 1},
            {"NewInviteCode": 1, "Uses": 1},
            {"NewInviteCode": "x", "Uses": "1"},
            {"NewInviteCode": "x", "Uses": 10**30},
            {"NewInviteCode": "x", "InfiniteUses": 1},
        ):
            page = self.ask("POST", "RegisterInviteCode", json=body)
            self.assertEqual((page.status, page.body), (400, b""))
