"""Every action of staff leaves a row in the audit log, and so does every rejected attempt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

from sqlalchemy import func, select
from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Unavailable
from svcserver.metagame.accounts.actions import ACTIONS
from svcserver.metagame.accounts.audit import AUDIT_LOG
from svcserver.metagame.accounts.dashboard_access import (
    DashboardAccess,
    SqlDashboardAccess,
    new_factor,
)
from svcserver.metagame.accounts.tries import tries_watch
from svcserver.metagame.owner.people.store import SqlPeople
from svcserver.metagame.rows import Access
from tests.support.belongings import Owner
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

READS = {  # they only return the text of existing codes
    "POST /svc/api/DashboardJoin",
    "POST /svc/api/DashboardJoinStrings",
}
STAFF = (Access.ADMIN_KEY, Access.ADMIN_OR_GAME_SERVER)
SAYS_ALL = {  # actions without a state before and after
    *("kick", "new key", "export", "player token", "sign in", "sign out", "sign-in link"),
}
# these actions need no reason
OF_ONESELF = {"sign in", "sign out", "sign-in link", "dashboard key", "second factor"}
NOT_HERE = {  # actions that this test's host refuses
    *("start game server", "test alerts", "second factor", "sign-in link"),
    *("request backup", "download backup"),
}
TWO_ROWS = {  # these actions are no transactions, and write a row beforehand
    "POST /svc/api/DashboardGameServer",
    "POST /svc/api/DashboardAlertChannel",
    "DELETE /svc/api/DashboardAlertChannel/<name>",
    "POST /svc/api/DashboardBackupSchedule",
}
CHANNEL = {"Name": "phone", "New": True, "Form": "ntfy", "Url": "https://x"}
SCHEDULE = {"At": "04:00", "Days": 7, "Weeks": 4, "Months": 12}
GUILD = {"name": "Lanterns", "nameplate": "LAN"}


class AuditContract(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, BACKEND_HEALTH="1")
        self.olga = self.game.player("Olga", admin=True)
        self.ann = Owner.of(self.game, "Ann_1")
        self.bob = self.game.player("Bob_1")
        self.game.player("Cid_1")
        folder = Path(self.enterContext(TemporaryDirectory()))
        self.game.parts.desk.dashboard.folder = folder

    def found_guild(self) -> None:
        token = self.ann.player.token
        self.game.browse("POST", "/guild/validate", token=token, json=GUILD)
        body = {**GUILD, "leader_account_id": self.ann.player.id}
        self.game.browse("POST", "/guild", game_server=GAME_SERVER_KEY, json=body)

    def give_her_much(self) -> None:
        """Give the player saves and notes, so that every staff action has something to act on."""
        ann, character = self.ann.player, self.ann.character
        save = {"characterId": character, "data": "{}", "updateVersion": 1}
        self.game.browse("POST", "/character", json=save, token=ann.token)
        slot = f"/loadout/{ann.id}/{character}/0"
        self.game.browse("POST", slot, json={"data": "{}"}, token=ann.token)
        self.game.ledger.run(lambda tx: SqlPeople(tx).add_notes(ann.id, 5))

    def sent(self) -> Mapping[str, Any]:
        """Return a body for each route; even requests that a rule rejects are audited."""
        ann, person = self.ann.player.id, {"Account": "Ann_1"}
        version = {"CharacterId": self.ann.character, "Version": 1}
        return {
            "POST /svc/api/RegistrationStatus": {"RegistrationStatus": "OPEN"},
            "POST /svc/api/RenameUser": {"UserId": self.bob.id, "NewUsername": "Bobby"},
            "POST /svc/api/GenerateJWTForUserId": {"UserId": ann},
            "POST /svc/api/CreateInvite": {"uses": 1, "name": "x"},
            "POST /svc/api/DashboardInvites": {"Count": 2, "Note": "x"},
            "POST /svc/api/RegisterInviteCode": {"NewInviteCode": "AAAA-BBBB", "Uses": 1},
            "DELETE /svc/api/InviteCode/<code>": None,
            "POST /svc/api/RollbackCharacter": version,
            "POST /svc/api/RollbackLoadout": version,
            "POST /svc/api/DisbandGuild": {"Guild": "Lanterns"},
            "POST /svc/api/SeedProgression": {"UserId": ann, "Mode": "fresh"},
            "POST /svc/api/GrantEntitlement": {"UserId": ann, "Entitlement": "x"},
            "POST /svc/api/RevokeEntitlement": {"UserId": ann, "Entitlement": "x"},
            "DELETE /progression/<user_id>/<progression_id>": None,
            "POST /svc/api/DashboardBan": person,
            "POST /svc/api/DashboardUnban": person,
            "POST /svc/api/DashboardMute": person,
            "POST /svc/api/DashboardUnmute": person,
            "POST /svc/api/DashboardKick": person,
            "POST /svc/api/DashboardRole": {**person, "Role": "helper"},
            "POST /svc/api/DashboardNewKey": person,
            "POST /svc/api/DashboardMergeNotes": {**person, "To": "Olga"},
            "POST /svc/api/DashboardExport": person,
            "POST /svc/api/DashboardDelete": {"Account": "Cid_1"},
            "POST /svc/api/DashboardAnnouncement": {"Text": "Hunt night"},
            "POST /svc/api/DashboardDrain": {"On": True},
            "POST /svc/api/DashboardSetting": {"Name": "GUILD_MAX_MEMBERS", "Value": "7"},
            "POST /svc/api/DashboardAlertTest": {"Name": "phone"},
            "POST /svc/api/DashboardAlertChannel": CHANNEL,
            "DELETE /svc/api/DashboardAlertChannel/<name>": None,
            "POST /svc/api/DashboardBackup": {},
            "POST /svc/api/DashboardBackupSchedule": SCHEDULE,
            "POST /svc/api/DashboardBackupDownload": {"Name": "backup.tar.gz"},
            "POST /svc/api/DashboardGameServer": {"Act": "start", "Kind": "city"},
            "POST /svc/api/DashboardSession": None,
            "DELETE /svc/api/DashboardSession": None,
            "POST /svc/api/DashboardSignInLink": {},
            "POST /svc/api/DashboardOwnKey": {"On": False},
            "POST /svc/api/DashboardSecondFactor": {"Code": "000000"},
        }

    def rows(self) -> int:
        """Return the number of audit rows; the page shows a hundred at a time."""
        count = select(func.count()).select_from(AUDIT_LOG)
        return int(self.game.ledger.run(lambda tx: tx.execute(count).scalar_one()))

    def newest(self) -> dict[str, Any]:
        return self.newest_two()[0]

    def newest_two(self) -> list[dict[str, Any]]:
        page = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        rows: list[dict[str, Any]] = page.json["rows"][:2]
        return rows

    def managed(self) -> list[Any]:
        return [row for row in self.game.door.rows if row.access in STAFF]

    def acts(self) -> list[Any]:
        return [row for row in self.managed() if row.method != "GET" and row.name not in READS]

    def path(self, row: Any) -> str:
        path: str = row.path.replace("<code>", "AAAA-BBBB")
        path = path.replace("<name>", "phone").replace("<user_id>", self.ann.player.id)
        return path.replace("<progression_id>", "season09b")

    def ask(self, row: Any, key: str) -> Any:
        body = self.sent().get(row.name)
        if body is None:
            return self.game.browse(row.method, f"{self.path(row)}?Reason=because", key=key)
        sent = {**body, "Reason": "because"}
        return self.game.browse(row.method, self.path(row), key=key, json=sent)

    def test_this_test_sends_every_act_of_staff(self) -> None:
        self.assertEqual({row.name for row in self.acts()} - self.sent().keys(), set())

    @proves("every act of staff and every refused try is in the audit log")
    def test_every_act_of_staff_leaves_a_row(self) -> None:
        self.found_guild(), self.give_her_much()
        refused, untold = set(), []
        for row in self.acts():
            before = self.rows()
            page = self.ask(row, self.olga.key)
            self.assertNotIn(page.status, (403, 500), row.name)
            left = before + 1 + (row.name in TWO_ROWS)
            self.assertEqual(self.rows(), left, (row.name, page.status, page.body))
            newest = self.newest()
            self.assertIn(newest["action"], ACTIONS, row.name)
            reason = "" if newest["action"] in OF_ONESELF else "because"
            self.assertEqual(newest["reason"], reason, row.name)
            self.assertEqual(newest["targetKind"], self.kind(newest), row.name)
            if newest["refused"] is not None:
                refused.add(newest["action"])
            elif newest["action"] not in SAYS_ALL:
                self.assertTrue(newest["before"] or newest["after"], newest)
            says = ACTIONS[newest["action"]]
            for shown, expected in ((newest["before"], says.before), (newest["after"], says.after)):
                if shown and not expected:
                    untold.append((newest["action"], shown))
        self.assertEqual(refused, NOT_HERE)
        self.assertEqual(untold, [])  # the page of all events says what these hold
        path = "/svc/api/DashboardAudit?target=Ann_1"
        hers = self.game.browse("GET", path, key=self.olga.key).json["rows"]
        rolled = [row for row in hers if row["action"].startswith("roll back")]
        self.assertEqual([row["after"]["character"] for row in rolled], [self.ann.character] * 2)

    def kind(self, row: dict[str, Any]) -> str:
        """Return the kind that the row's target should have, such as ``account`` or ``guild``.

        A target that is not listed here is an invite if the action is about invites, and otherwise
        ``unknown``.
        """
        people = {"Olga", "Ann_1", "Bob_1", "Cid_1"}
        others = {
            "": "",
            "Lanterns": "guild",
            "phone": "channel",
            "backup.tar.gz": "file",
            "city": "game server",
            "GUILD_MAX_MEMBERS": "setting",
        }
        invite = "invite" if "invite" in row["action"] else "unknown"
        return "account" if row["target"] in people else others.get(row["target"], invite)

    def refused(self, row: Any, status: int, actor: str, **sent: Any) -> None:
        """Send a request; check that one more row records the rejection and its caller."""
        before = self.rows()
        page = self.game.browse(row.method, self.path(row), **sent)
        self.assertEqual(page.status, status, (row.name, page.body))
        self.assertEqual(self.rows(), before + 1, row.name)
        newest = self.newest()
        self.assertTrue(newest["refused"], row.name)
        self.assertEqual(newest["actor"], actor, row.name)
        self.game.clock.advance(61)  # another minute, in which tries are recorded again

    @proves("every act of staff and every refused try is in the audit log")
    def test_a_request_by_a_non_admin_is_audited_as_refused(self) -> None:
        for row in self.acts():
            body = {"json": sent} if (sent := self.sent().get(row.name)) else {}
            self.refused(row, 403, "Bob_1", key=self.bob.key, **body)
            self.assertEqual(self.newest()["action"], row.name)

    @proves("every act of staff and every refused try is in the audit log")
    def test_an_insufficient_credential_is_audited_as_refused(self) -> None:
        """The test covers every route that accepts an admin key, including those that only read."""
        mia, kim, bea = (self.game.player(name, admin=True) for name in ("Mia", "Kim", "Bea"))
        self.own_ways(DashboardAccess(mia.id, factor=new_factor()))
        self.own_ways(DashboardAccess(kim.id, key_hash="0" * 64))
        self.post("DashboardRole", Account="Bea", Role="moderator")
        self.post("DashboardBan", Account="Bea")
        for row in self.managed():
            if not row.signs_in:  # what signs in asks for the code itself
                self.refused(row, 401, "Mia", key=mia.key)
            self.refused(row, 401, "Kim", key=kim.key)
            self.refused(row, 403, "Bea", key=bea.key)
            far = {"X-Forwarded-For": "203.0.113.9"}
            self.refused(row, 403, "stranger at 127.0.0.1", key=self.olga.key, headers=far)
            self.refused(row, 401, "stranger at 127.0.0.1", key="UUK_x")
            self.game.clock.advance(3_600)

    @proves("every act of staff and every refused try is in the audit log")
    def test_an_unreadable_body_is_audited_as_refused(self) -> None:
        for row in self.acts():
            if self.sent()[row.name] is not None:
                for wrong in (b"{", b"[]", b'"x"'):
                    self.refused(row, 400, "Olga", key=self.olga.key, data=wrong)

    @proves("every act of staff and every refused try is in the audit log")
    def test_a_request_without_a_key_is_audited_as_refused(self) -> None:
        for row in self.acts():
            if row.access is Access.ADMIN_KEY:
                self.refused(row, 401, "stranger at 127.0.0.1")

    @proves("every act of staff and every refused try is in the audit log")
    def test_the_audit_holds_acts_of_staff_but_not_of_players(self) -> None:
        acts = {
            "Friends": "friend request for",
            "PartyInvite": "party invite for",
            "GuildInvite": "guild invite for",
        }
        self.found_guild()
        for route in acts:
            path, mine = f"/svc/api/{route}", {"Username": "Bob_1"}
            self.assertEqual(
                self.game.browse("POST", path, key=self.ann.player.key, json=mine).status, 200
            )
            self.assertEqual(self.rows(), 0)
        cleo = self.game.player("Cleo")
        for number, (route, name) in enumerate(acts.items(), 1):
            path, body = f"/svc/api/{route}", {"Username": "Cleo", "From": "Ann_1"}
            with_reason = {**body, "Reason": "she asked me to"}
            page = self.game.browse("POST", path, key=self.olga.key, json=with_reason)
            self.assertEqual((page.status, self.rows()), (200, number * 7 - 5), page.body)
            for row, began in zip(self.newest_two(), ({}, {"begun": True}), strict=True):
                written = (row["actor"], row["action"], row["target"], row["reason"], row["after"])
                after = {"to": "Cleo", **began}
                self.assertEqual(written, ("Olga", name, "Ann_1", "she asked me to", after))
            body = {"Username": "Ann_1", "From": "Ann_1"}
            page = self.game.browse("POST", path, key=self.olga.key, json=body)
            self.assertGreaterEqual(page.status, 400, route)
            refused, began = self.newest_two()
            self.assertTrue(refused["refused"])
            self.assertEqual((began["refused"], began["after"]["begun"]), (None, True))
            self.assertEqual(self.rows(), number * 7 - 3)
            page = self.game.browse("POST", path, key=cleo.key, json=body)
            self.assertEqual((page.status, self.rows()), (403, number * 7 - 2))
            newest = self.newest()
            self.assertEqual((newest["actor"], newest["action"]), ("Cleo", name))
            self.assertTrue(newest["refused"])
            for body in ({"Username": "Nobody"}, {"Username": "Ann_1", "From": "Nobody"}):
                body = {"From": "Ann_1", **body}
                page = self.game.browse("POST", path, key=self.olga.key, json=body)
                newest = self.newest()
                self.assertEqual((page.status, newest["actor"]), (404, "Olga"))
                self.assertTrue(newest["refused"])
            self.assertEqual(self.rows(), number * 7)

    def test_a_read_with_an_unknown_session_leaves_no_audit_row(self) -> None:
        for row in self.managed():
            if row.method == "GET":
                self.game.browse("GET", self.path(row), headers={"x-svc-dashboard": "0" * 32})
        self.assertEqual(self.rows(), 0)

    @proves("every act of staff and every refused try is in the audit log")
    def test_beyond_sixty_a_minute_refusals_share_one_audit_row(self) -> None:
        watch = tries_watch(self.game.parts.tries, self.game.clock)
        watch.startService()
        for _ in range(70):
            self.game.browse("GET", "/svc/api/InviteCodes", key=self.bob.key)
        self.assertEqual(self.rows(), 60)
        self.game.clock.advance(60)
        self.assertEqual(self.rows(), 61)
        newest = self.newest()
        self.assertEqual(newest["action"], "refused tries")
        self.assertEqual(newest["refused"], "10 more are not recorded")
        self.game.browse("GET", "/svc/api/InviteCodes", key=self.bob.key)
        self.assertEqual(self.newest()["actor"], "Bob_1")
        self.game.clock.advance(60)
        self.assertEqual(self.rows(), 62)  # no row was omitted, so there is no row about omissions
        self.successResultOf(maybeDeferred(watch.stopService))

    def test_strangers_together_leave_sixty_an_hour(self) -> None:
        for minute in range(70):
            self.game.browse("GET", "/svc/api/InviteCodes", key=f"UUK_{minute}")
            self.game.clock.advance(10)
        self.assertEqual(self.rows(), 60)
        tries = self.game.parts.tries
        self.successResultOf(tries.report_missed())
        self.assertEqual(self.newest()["refused"], "10 more are not recorded")

    def test_without_the_board_a_refusal_is_answered_and_counted(self) -> None:
        tries = self.game.parts.tries

        def away(*_: Any, **__: Any) -> Deferred[Any]:
            return fail(Unavailable("away"))

        self.patch(tries, "board", Mock(transact=away))
        page = self.game.browse("DELETE", "/svc/api/DashboardSession")
        self.assertEqual(page.status, 401)
        self.successResultOf(tries.report_missed())
        self.assertEqual(self.newest()["refused"], "1 more are not recorded")

    def own_ways(self, ways: DashboardAccess) -> None:
        self.game.ledger.run(lambda tx: SqlDashboardAccess(tx).put(ways))

    def post(self, route: str, **body: str) -> None:
        page = self.game.browse("POST", f"/svc/api/{route}", key=self.olga.key, json=body)
        self.assertEqual(page.status, 200, page.body)
