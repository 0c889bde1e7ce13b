"""The change marks that make the dashboard's lists reload."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.roles import Role
from svcserver.metagame.accounts import audit
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.marks import EVERY_S, Marks
from svcserver.metagame.owner.people.acts import PeopleActs
from tests.support.game import GAME_SERVER_KEY, Game, Player
from tests.support.proves import proves

PAGES = ("accounts", "moderation", "audit", "invites", "guilds", "alerts", "account")


class MarkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, REGISTRATION_MODE="INVITECODE")
        self.olga, self.ann = self.game.player("Olga", admin=True), self.game.player("Ann_1")
        parts, now = self.game.parts, self.game.clock.seconds
        people = PeopleActs(self.game.ledger, parts.online, "city", now)
        self.servers = ["city"]
        marks = Marks(self.game.ledger, people.where, {"alerts": self.alerts}, now)
        self.looks: dict[str, Callable[[], Any]] = {}
        for page in PAGES:
            look = marks.reader(page, "ann_1")
            assert look is not None
            self.looks[page] = look
        self.assertIsNone(marks.reader("overview"))
        self.marks = self.read()

    async def alerts(self) -> list[str]:
        return [*self.servers]

    def read(self) -> dict[str, Any]:
        self.game.clock.advance(EVERY_S)
        return {
            page: self.successResultOf(Deferred.fromCoroutine(look()))
            for page, look in self.looks.items()
        }

    def changed(self) -> set[str]:
        """Return the pages whose change marks differ from those at the last call."""
        before, self.marks = self.marks, self.read()
        return {page for page in PAGES if self.marks[page] != before[page]}

    def staff(self, route: str, body: Any) -> Any:
        page = self.game.browse("POST", f"/svc/api/{route}", json=body, key=self.olga.key)
        self.assertEqual(page.status, 200, page.body)
        return page.json

    def play(self, who: Player, path: str, body: Any, **more: str) -> None:
        page = self.game.browse("POST", path, json=body, token=who.token, **more)
        self.assertEqual(page.status, 200, page.body)

    @proves("GET DashboardEvents")
    def test_a_mark_changes_with_its_list(self) -> None:
        self.assertEqual(self.changed(), set())
        self.staff("DashboardBan", {"Account": "Ann_1", "For": "1h"})
        self.assertEqual(self.changed(), {"accounts", "moderation", "audit"} | self.by_audit)
        self.game.clock.advance(3_600)
        self.assertEqual(self.changed(), {"accounts", "moderation", "account"})
        self.staff("DashboardAnnouncement", {"Text": "Cake at nine", "For": "1h"})
        self.assertIn("moderation", self.changed())
        self.game.clock.advance(3_600)
        self.assertEqual(self.changed(), {"moderation"})

    by_audit = frozenset({"invites", "account"})  # any staff action may affect these pages

    def test_acts_of_players_change_marks(self) -> None:
        code = self.staff("CreateInvite", {"uses": 2})["code"]
        self.assertEqual(self.changed(), {"accounts", "moderation", "audit", "invites", "account"})
        self.game.player("Cleo")
        self.assertEqual(self.changed(), {"accounts"})
        self.game.ledger.run(lambda tx: SqlAccounts(tx).spend(code))
        self.assertEqual(self.changed(), {"invites"})
        beat = {"map": "cora_jamima", "state": "island"}
        self.play(self.ann, "/heartbeat", beat)
        self.assertEqual(self.changed(), {"accounts", "account"})
        self.play(self.ann, "/heartbeat", beat)
        self.assertEqual(self.changed(), set())

    def test_a_new_guild_changes_the_mark_of_guilds(self) -> None:
        body = {"name": "Lanterns", "nameplate": "LAN"}
        self.play(self.ann, "/guild/validate", body)
        made = {**body, "leader_account_id": self.ann.id}
        page = self.game.browse("POST", "/guild", game_server=GAME_SERVER_KEY, json=made)
        self.assertEqual(page.status, 200)
        self.assertEqual(self.changed(), {"guilds"})

    @proves("GET DashboardEvents")
    def test_an_account_mark_changes_with_its_own_saves_only(self) -> None:
        cleo = self.game.player("Cleo")
        for player in (self.ann, cleo):
            # this request creates the first character
            self.game.browse("GET", "/character", token=player.token)
        self.assertIn("account", self.changed())
        self.save(cleo)
        self.assertEqual(self.changed(), set())
        self.save(self.ann)
        self.assertEqual(self.changed(), {"account"})

    def save(self, who: Player) -> None:
        [character] = self.game.browse("GET", "/character", token=who.token).json
        self.play(
            who, "/character", {"characterId": character["id"], "data": "{}", "updateVersion": 1}
        )

    def test_an_account_mark_changes_once_when_it_is_deleted(self) -> None:
        self.staff("DashboardDelete", {"Account": "Ann_1"})
        self.assertIn("account", self.changed())
        self.assertEqual(self.changed(), set())

    def test_the_mark_of_a_page_about_the_host_changes_with_it(self) -> None:
        self.servers.append("hunt")
        self.assertEqual(self.changed(), {"alerts"})

    def test_a_mark_is_computed_every_two_seconds_only(self) -> None:
        self.marks = self.read()
        again = Deferred.fromCoroutine(self.looks["audit"]())
        self.assertIsNone(self.successResultOf(again))

    def test_helpers_are_refused_marks_of_owner_pages(self) -> None:
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(self.ann.id, Role.HELPER))
        headers = {"Accept": "text/event-stream"}
        for page, status in (("invites", 403), ("log", 403)):
            path = f"/svc/api/DashboardEvents?page={page}"
            reply = self.game.browse("GET", path, key=self.ann.key, headers=headers)
            self.assertEqual(reply.status, status, page)
        rows = self.game.ledger.run(lambda tx: audit.rows(tx, audit.AuditQuery(actor="Ann_1")))
        actions = [(row["action"], bool(row["refused"])) for row in rows]
        self.assertEqual(actions, [("GET /svc/api/DashboardEvents", True)] * 2)
