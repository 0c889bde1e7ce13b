"""Bans, mutes, kicks and roles over HTTP: permissions, effects and audit rows."""

from collections.abc import Callable
from typing import Any

from attrs import define, evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.ports import About
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.audit import AuditEntry, audited
from svcserver.metagame.accounts.sanctions import SanctionKind, SqlSanctions
from svcserver.metagame.accounts.sessions import session_watch
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.chat_ports import chat_game
from svcserver.metagame.owner.moderation import acts
from svcserver.metagame.owner.moderation.acts import StaffWork
from svcserver.metagame.owner.moderation.rules import sanction_order
from tests.chat.fixture import ChatFixture, FakeGame
from tests.chat.fixture import account as chat_id
from tests.support.browser import Page
from tests.support.game import Game, Player
from tests.support.proves import proves

TOKEN = "/account/api/oauth/token"


class StaffCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.olga = self.game.player("Olga", admin=True)
        self.mod, self.helper = self.staff("Mona", Role.MODERATOR), self.staff("Hal", Role.HELPER)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")

    def staff(self, name: str, role: Role) -> Player:
        made = self.game.player(name)
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(made.id, role))
        return made

    def do(self, by: Player, act: str, who: str, **sent: Any) -> Page:
        body = {"Account": who, **sent}
        return self.game.browse("POST", f"/svc/api/Dashboard{act}", json=body, key=by.key)

    def rows(self, by: Player | None = None, query: str = "") -> list[dict[str, Any]]:
        path = f"/svc/api/DashboardAudit{query}"
        rows: list[dict[str, Any]] = self.game.browse("GET", path, key=(by or self.olga).key).json[
            "rows"
        ]
        return rows

    def log_in(self, player: Player) -> int:
        return self.game.browse("POST", TOKEN, json={"exchange_code": player.key}).status

    def plays(self, player: Player) -> bool:
        return self.game.browse("GET", "/accountinfo", token=player.token).status == 200


class BanTests(StaffCase):
    @proves("POST DashboardBan")
    def test_a_banned_player_is_refused_like_an_unknown_player(self) -> None:
        page = self.do(self.mod, "Ban", "ann_1", Reason="cheats", Note="third time", For="7d")
        self.assertEqual(page.status, 200)
        self.assertEqual(
            (page.json["Username"], page.json["Sanction"]["reason"]), ("Ann_1", "cheats")
        )
        self.assertFalse(self.plays(self.ann))
        unknown = self.game.browse("POST", TOKEN, json={"exchange_code": "UUK_" + "0" * 48})
        banned = self.game.browse("POST", TOKEN, json={"exchange_code": self.ann.key})
        self.assertEqual((banned.status, banned.body), (unknown.status, unknown.body))
        self.assertEqual(self.log_in(self.bob), 200)

    @proves("POST DashboardBan")
    def test_no_key_route_knows_a_banned_account(self) -> None:
        self.do(self.mod, "Ban", "Ann_1")
        info = self.game.browse("GET", "/svc/api/GetUserInfo", key=self.ann.key)
        self.assertEqual(info.status, 403)
        status = self.game.browse("GET", "/svc/api/ServerStatus", key=self.ann.key)
        self.assertTrue(status.json["limited"])

    def test_a_timed_ban_ends_when_its_time_is_over(self) -> None:
        self.do(self.mod, "Ban", "Ann_1", For="2h")
        self.game.clock.advance(7_199)
        self.assertEqual(self.log_in(self.ann), 400)
        self.game.clock.advance(1)
        self.assertEqual(self.log_in(self.ann), 200)

    @proves("POST DashboardUnban")
    def test_a_lifted_ban_allows_login_and_a_second_unban_is_409(self) -> None:
        self.do(self.mod, "Ban", "Ann_1")
        self.assertEqual(self.do(self.mod, "Unban", "Ann_1", Reason="a mistake").status, 200)
        self.assertEqual(self.log_in(self.ann), 200)
        again = self.do(self.mod, "Unban", "Ann_1")
        self.assertEqual((again.status, again.json["error"]), (409, "not_banned"))

    def test_a_development_server_lets_no_banned_id_in(self) -> None:
        self.game = Game(self, AUTH_MODE="NONE")
        ann = self.game.player("Ann_1")
        olga = self.game.player("Olga", admin=True)
        self.game.browse("POST", "/svc/api/DashboardBan", json={"Account": "Ann_1"}, key=olga.id)
        page = self.game.browse("POST", TOKEN, json={"exchange_code": ann.id})
        self.assertEqual(page.status, 400)

    def test_invalid_bans_are_refused(self) -> None:
        for sent in ({"For": "soon"}, {"For": "0d"}, {"For": "99w99"}, {"Reason": "x" * 257}):
            self.assertEqual(self.do(self.mod, "Ban", "Ann_1", **sent).status, 400, sent)
        nobody = self.do(self.mod, "Ban", "Nobody")
        self.assertEqual((nobody.status, nobody.json["error"]), (404, "not_found"))


class MuteAndKickTests(StaffCase):
    def muted(self) -> bool:
        sanctions = self.game.ledger.run(
            lambda tx: SqlSanctions(tx).find(self.ann.id, SanctionKind.MUTE)
        )
        return sanctions is not None

    @proves("POST DashboardMute", "POST DashboardUnmute")
    def test_a_muted_player_plays_on(self) -> None:
        self.assertEqual(self.do(self.mod, "Mute", "Ann_1", For="1h", Reason="spam").status, 200)
        self.assertTrue(self.muted() and self.plays(self.ann))
        self.assertEqual(self.do(self.mod, "Unmute", self.ann.id).status, 200)
        self.assertFalse(self.muted())
        self.assertEqual(self.do(self.mod, "Unmute", self.ann.id).status, 409)

    @proves("POST DashboardMute")
    def test_a_mute_without_reason_or_end_holds_until_lifted(self) -> None:
        sanction = self.do(self.mod, "Mute", "Ann_1").json["Sanction"]
        values = (sanction["reason"], sanction["note"], sanction["until"])
        self.assertEqual(values, ("", "", None))
        self.do(self.olga, "Role", "Ann_1", Role="helper")
        self.assertEqual([row["reason"] for row in self.rows()[:2]], ["", ""])
        self.assertEqual(self.do(self.olga, "Role", "Ann_1", Role="player", Reason="").status, 200)

    @proves("POST DashboardKick")
    def test_a_kicked_player_may_come_back(self) -> None:
        self.assertEqual(self.do(self.mod, "Kick", "Ann_1").status, 200)
        self.assertFalse(self.plays(self.ann))
        self.assertTrue(self.plays(self.bob))
        self.assertEqual(self.log_in(self.ann), 200)

    @proves("GET DashboardSanctions")
    def test_sanctions_in_force_are_listed(self) -> None:
        self.do(self.mod, "Ban", "Ann_1", For="1h")
        self.game.clock.advance(60)
        self.do(self.mod, "Mute", "Bob_1")
        listed = self.game.browse("GET", "/svc/api/DashboardSanctions", key=self.helper.key)
        sanctions = [
            (sanction["Username"], sanction["Kind"]) for sanction in listed.json["sanctions"]
        ]
        self.assertEqual(sanctions, [("Bob_1", "mute"), ("Ann_1", "ban")])
        self.game.clock.advance(3_600)
        listed = self.game.browse("GET", "/svc/api/DashboardSanctions", key=self.helper.key)
        self.assertEqual([sanction["Username"] for sanction in listed.json["sanctions"]], ["Bob_1"])

    @proves("GET DashboardSanctions")
    def test_a_long_list_shows_the_total_count(self) -> None:
        self.patch(acts, "MAX_LISTED", 2)
        for act, name in (("Ban", "Ann_1"), ("Mute", "Ann_1"), ("Mute", "Bob_1")):
            self.do(self.mod, act, name)
            self.game.clock.advance(60)
        listed = self.game.browse("GET", "/svc/api/DashboardSanctions", key=self.helper.key)
        sanctions = [
            (sanction["Username"], sanction["Kind"]) for sanction in listed.json["sanctions"]
        ]
        self.assertEqual(sanctions, [("Bob_1", "mute"), ("Ann_1", "mute")])
        self.assertEqual(listed.json["count"], 3)


@define
class OneMuted(FakeGame):
    """The chat's view of the game, in which the test decides whether the first player is muted."""

    muted_now: Callable[[], bool] = lambda: False

    def about(self, account: str, networks: frozenset[str]) -> Deferred[About | None]:
        person = self.people[chat_id(1)]
        self.people[chat_id(1)] = evolve(person, muted=self.muted_now())
        return super().about(account, networks)


class WithinASecondTests(StaffCase):
    """Changes that another process makes in the database take effect within a second."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()

    def svcctl(self, action: str, player: Player) -> None:
        """Change the database as another process would; then advance the clock by one second."""
        now = self.game.clock.seconds
        work = StaffWork(Staff("svcctl", Role.OWNER), player.id, now)
        acts = {
            "ban": work.ban(sanction_order("", "", "")),
            "unban": work.lift(SanctionKind.BAN),
            "mute": work.mute(sanction_order("", "", "")),
            "unmute": work.lift(SanctionKind.MUTE),
            "kick": work.kick(),
        }
        self.game.ledger.run(audited(AuditEntry("svcctl", action, player.id), now, acts[action]))
        self.clock.advance(1.0)

    @proves("svcctl ban, unban", "svcctl mute, unmute, kick")
    def test_acts_of_svcctl_reach_every_route_within_a_second(self) -> None:
        watch = session_watch(self.game.parts.sessions, self.clock)
        watch.startService()
        self.addCleanup(watch.stopService)
        self.clock.advance(0.9)  # wherever the change falls between two checks
        for player, action in ((self.ann, "ban"), (self.bob, "kick")):
            self.assertTrue(self.plays(player))
            self.svcctl(action, player)
            self.assertFalse(self.plays(player), action)
        self.assertEqual(self.log_in(self.ann), 400)
        self.svcctl("unban", self.ann)
        self.assertEqual(self.log_in(self.ann), 200)

    @proves("svcctl mute, unmute, kick", "a muted player's lines")
    def test_acts_of_svcctl_reach_the_chat_within_a_second(self) -> None:
        parts = self.game.parts
        asks = chat_game(parts.tokens, parts.ledger, parts.parties, parts.wall_clock, guilds=False)

        def muted() -> bool:
            about = self.successResultOf(asks.about(self.ann.id, frozenset()))
            return about is not None and about.muted

        fixture = ChatFixture(game=OneMuted(muted_now=muted), clock=self.clock)
        ann = fixture.bound(1)
        ann.join("City-1")
        for action, refused in (("mute", True), ("unmute", False)):
            ann.take_texts()
            self.svcctl(action, self.ann)
            [line] = ann.say("City-1", "x")  # the chat reads the account for this line
            self.assertEqual("not-acceptable" in line, refused, action)


class RoleTests(StaffCase):
    @proves("who of the staff may do what")
    def test_helpers_only_read_and_moderators_act_on_players(self) -> None:
        for act in ("Ban", "Mute", "Kick"):
            self.assertEqual(self.do(self.helper, act, "Ann_1").status, 403)
            self.assertEqual(self.do(self.ann, act, "Bob_1").status, 403)
            self.assertEqual(self.do(self.mod, act, "Hal").status, 200)
        self.assertTrue(self.plays(self.ann))
        self.assertEqual(
            self.game.browse("GET", "/svc/api/GetAllUsers", key=self.ann.key).status, 403
        )

    @proves("who of the staff may do what")
    def test_nobody_bans_an_owner_nor_a_moderator_another(self) -> None:
        self.staff("Mick", Role.MODERATOR)
        for who, status in (("Mick", 403), ("Mona", 403), ("Olga", 409)):
            self.assertEqual(self.do(self.mod, "Ban", who).status, status)
        self.assertEqual(self.do(self.olga, "Ban", "Olga").json["error"], "is_owner")
        self.assertEqual(self.do(self.olga, "Ban", "Mick").status, 200)

    @proves("POST DashboardRole")
    def test_only_an_owner_gives_roles_and_the_last_owner_stays(self) -> None:
        self.assertEqual(self.do(self.mod, "Role", "Ann_1", Role="helper").status, 403)
        page = self.do(self.olga, "Role", "Ann_1", Role="moderator")
        self.assertEqual(page.json["Role"], "moderator")
        self.assertEqual(self.do(self.ann, "Kick", "Bob_1").status, 200)
        last = self.do(self.olga, "Role", "Olga", Role="player")
        self.assertEqual((last.status, last.json["error"]), (409, "last_owner"))
        self.do(self.olga, "Role", "Bob_1", Role="owner")
        self.assertEqual(self.do(self.olga, "Role", "Olga", Role="player").status, 200)
        self.assertEqual(self.do(self.olga, "Role", "Bob_1", Role="player").status, 403)


class AuditTests(StaffCase):
    @proves("GET DashboardAudit")
    def test_every_act_and_refused_attempt_is_a_row(self) -> None:
        self.do(self.mod, "Mute", "ANN_1", For="1h", Reason="spam")
        self.do(self.mod, "Mute", "Ann_1", Reason="more spam")
        self.do(self.helper, "Kick", "Ann_1", Reason="I may not")
        self.do(self.mod, "Ban", "Nobody")
        nobody, kick, again, first = self.rows(self.helper)
        self.assertEqual(
            [first[row] for row in ("actor", "action", "target", "reason", "before", "refused")],
            ["Mona", "mute", "Ann_1", "spam", None, None],
        )
        self.assertEqual(first["after"]["until"], "2026-09-21T15:13:20.000Z")
        self.assertEqual(again["before"], first["after"])
        self.assertEqual(again["after"]["until"], None)
        self.assertEqual((kick["actor"], kick["action"], kick["target"]), ("Hal", "kick", "Ann_1"))
        self.assertIn("moderator", kick["refused"])
        self.assertEqual((nobody["target"], nobody["after"]), ("Nobody", None))
        self.assertTrue(nobody["refused"])

    @proves("GET DashboardAudit")
    def test_rows_are_filtered_by_actor_target_and_time(self) -> None:
        for _ in range(60):
            self.do(self.mod, "Kick", "Ann_1")
            self.do(self.olga, "Kick", "Bob_1")
        self.game.clock.advance(7_200)
        self.do(self.olga, "Kick", "Ann_1")
        self.assertEqual(len(self.rows(query="?actor=mona")), 60)
        self.assertEqual(len(self.rows(query="?actor=Olga&target=ANN_1")), 1)
        self.assertEqual(len(self.rows(query="?since=1h")), 1)
        page = self.game.browse("GET", "/svc/api/DashboardAudit", key=self.olga.key).json
        older = self.rows(query=f"?until={page['next']}")
        self.assertEqual((len(page["rows"]), len(older)), (100, 21))
        for query in ("?since=soon", "?until=-1", "?until=x"):
            refused = self.game.browse("GET", f"/svc/api/DashboardAudit{query}", key=self.olga.key)
            self.assertEqual(refused.status, 400)

    @proves("GET DashboardAudit")
    def test_an_owners_account_and_invite_actions_are_audit_rows(self) -> None:
        def post(route: str, **sent: Any) -> Page:
            path = f"/svc/api/{route}"
            return self.game.browse("POST", path, json=sent, key=self.olga.key)

        code = post("CreateInvite", uses=2).json["code"]
        post("RegisterInviteCode", NewInviteCode="HUNT-NIGHT", Uses=5)
        self.game.browse("DELETE", f"/svc/api/InviteCode/{code}", key=self.olga.key)
        post("RegistrationStatus", RegistrationStatus="NONE")
        post("RenameUser", Username="Ann_1", NewUsername="Anna")
        post("RenameUser", Username="Bob_1", NewUsername="anna")
        post("GenerateJWTForUserId", UserId=self.bob.id)
        post("GrantEntitlement", UserId=self.bob.id, Entitlement="gift", Duration=2)
        post("RollbackCharacter", CharacterId="nobody", Version=3)
        post("DisbandGuild", Guild="None")
        rows = self.rows()[::-1]
        self.assertEqual({row["actor"] for row in rows}, {"Olga"})
        self.assertEqual(
            [(row["action"], row["target"], bool(row["refused"])) for row in rows],
            [
                ("create invite", f"{code[:4]}-...", False),
                ("put invite", "HUNT-...", False),
                ("revoke invite", f"{code[:4]}-...", False),
                ("registration mode", "", False),
                ("rename", "Ann_1", False),
                ("rename", "Bob_1", True),
                ("player token", "Bob_1", False),
                ("grant", "Bob_1", False),
                ("roll back", "nobody", True),
                ("disband guild", "None", True),
            ],
        )
        self.assertEqual(rows[3]["before"], {"mode": "OPEN"})
        self.assertEqual(rows[4]["after"], {"username": "Anna"})
        self.assertNotIn(code, str(rows))
