"""Every act of staff leaves a row in the audit log, as does every refused try."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame
from svcserver.metagame.accounts.actions import ACTIONS
from svcserver.metagame.accounts.audit import LONGEST
from svcserver.metagame.rows import Access
from tests.support.belongings import Owner
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

READS = {"POST /svc/api/DashboardJoin"}  # gives the text of a code that is there already
STAFF = (Access.ADMIN_KEY, Access.ADMIN_OR_GAME_SERVER)
GUILD = {"name": "Lanterns", "nameplate": "LAN"}


class AuditContract(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, BACKEND_HEALTH="1")
        self.olga = self.game.player("Olga", admin=True)
        self.ann = Owner.of(self.game, "Ann_1")
        self.bob = self.game.player("Bob_1")

    def found_guild(self) -> None:
        token = self.ann.player.token
        self.game.browse("POST", "/guild/validate", token=token, json=GUILD)
        body = {**GUILD, "leader_account_id": self.ann.player.id}
        self.game.browse("POST", "/guild", game_server=GAME_SERVER_KEY, json=body)

    def sent(self) -> Mapping[str, Any]:
        """A body for every row; what is refused by a rule is recorded all the same."""
        ann, person = self.ann.player.id, {"Account": "Ann_1"}
        version = {"CharacterId": self.ann.character, "Version": 1}
        return {
            "POST /svc/api/RegistrationStatus": {"RegistrationStatus": "OPEN"},
            "POST /svc/api/RenameUser": {"UserId": ann, "NewUsername": "Anna_1"},
            "POST /svc/api/GenerateJWTForUserId": {"UserId": ann},
            "POST /svc/api/CreateInvite": {"uses": 1, "name": "x"},
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
            "POST /svc/api/DashboardMergeNotes": {**person, "To": "Bob_1"},
            "POST /svc/api/DashboardExport": person,
            "POST /svc/api/DashboardDelete": person,
            "POST /svc/api/DashboardAnnouncement": {"Text": "Hunt night"},
            "POST /svc/api/DashboardDrain": {"On": True},
            "POST /svc/api/DashboardAlertTest": {"Name": "phone"},
            "POST /svc/api/DashboardGameServer": {"Act": "start", "Kind": "city"},
            "POST /svc/api/DashboardSession": None,
            "DELETE /svc/api/DashboardSession": None,
            "POST /svc/api/DashboardOwnKey": {"On": False},
            "POST /svc/api/DashboardSecondFactor": {"Code": "000000"},
        }

    def rows(self) -> int:
        found = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        return len(found.json["rows"])

    def newest(self) -> dict[str, Any]:
        page = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key)
        found: dict[str, Any] = page.json["rows"][0]
        return found

    def acts(self) -> list[Any]:
        return [
            row
            for row in self.game.door.rows
            if row.access in STAFF and row.method != "GET" and row.name not in READS
        ]

    def path(self, row: Any) -> str:
        path: str = row.path.replace("<code>", "AAAA-BBBB")
        path = path.replace("<user_id>", self.ann.player.id)
        return path.replace("<progression_id>", "season09b")

    def ask(self, row: Any, key: str) -> Any:
        body = self.sent().get(row.name)
        sent = {} if body is None else {"json": body}
        return self.game.browse(row.method, self.path(row), key=key, **sent)

    def test_this_test_knows_every_act(self) -> None:
        self.assertEqual({row.name for row in self.acts()} - self.sent().keys(), set())

    @proves("every act of staff and every refused try is in the audit log")
    def test_every_act_of_staff_leaves_a_row(self) -> None:
        self.found_guild()
        for row in self.acts():
            before = self.rows()
            page = self.ask(row, self.olga.key)
            self.assertNotIn(page.status, (403, 500), row.name)
            self.assertEqual(self.rows(), before + 1, (row.name, page.status, page.body))
            action = self.newest()["action"]
            asked = f"{row.method} {self.path(row)}"[: LONGEST["action"]]
            self.assertIn(action, {*ACTIONS, asked}, row.name)

    @proves("every act of staff and every refused try is in the audit log")
    def test_every_try_of_somebody_else_leaves_one_that_says_refused(self) -> None:
        for row in self.acts():
            before = self.rows()
            self.assertEqual(self.ask(row, self.bob.key).status, 403, row.name)
            self.assertEqual(self.rows(), before + 1, row.name)
            newest = self.newest()
            self.assertTrue(newest["refused"], row.name)
            self.assertEqual((newest["actor"], newest["action"]), ("Bob_1", row.name))


# where the name of an act stands among the arguments of what hands it over
NAMED_AT = {"Entry": 1, "by_staff": 1, "_do": 1, "_run": 1, "_act": 2, "note": 2}
RECORDS = re.compile(r"\baudit\.|import .*\bEntry\b|recorded import|moderation import|SignInActs")
WORDS = re.compile(r"[a-z][a-z -]+\Z")


def acts_in(code: Path) -> set[str]:
    """The names of acts that the code hands over."""
    calls = (
        (getattr(one.func, "attr", getattr(one.func, "id", "")), one.args)
        for file in code.rglob("*.py")
        if RECORDS.search(text := file.read_text("utf-8"))
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.Call)
    )
    return {
        str(word.value)
        for name, arguments in calls
        if len(arguments) > (at := NAMED_AT.get(name, 99))
        for word in ast.walk(arguments[at])
        if isinstance(word, ast.Constant) and WORDS.match(str(word.value))
    }


class ActionTests(SynchronousTestCase):
    def test_the_list_of_actions_is_that_of_the_code(self) -> None:
        found = acts_in(Path(svcserver.metagame.__file__).parents[1])
        self.assertEqual(ACTIONS.keys(), found | {"mute"})  # svcctl names a sanction by its kind
