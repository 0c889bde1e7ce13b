"""Requests of an ordinary session, used as the examples in the API document.

Other feature tests send unusual requests on purpose; this module sends the usual requests of a
client. ``tests/support/examples.py`` prefers requests marked as ``shown`` to the requests of other
tests.
"""

from typing import Any

import orjson
from sqlalchemy import update
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from tests.metagame.play.matchmaking.base import CITY, HUNT, Reply
from tests.support.game import GAME_SERVER_KEY, Game, Player

WORLD = "/Game/Maps/city_01_persistent"
FRIENDS = "/friends/api/public"
STARTED = "2026-09-21T14:10:39+00:00"
TRACK, TALENT = "MasteryTrack_Behemoth", "ESC_TALENT_S1_TIER1_UPGRADEONE"
BOOST = "escalation_xp_boost_entitlement"
CLAW = "single_weapon_kats_claw"
SWORD = {"instanceId": "7d2f6a4e", "catalogId": "WP_SW_TRAINING"}
STAFF = "/svc/api/Dashboard"


class GameServers:
    """A fake deploy server that has a city and starts every requested game server."""

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        path = url.removeprefix("http://127.0.0.1:61001").partition("?")[0]
        city = {"id": "city-1", "kind": "city", "map": WORLD, "port": 8777, "startedAt": STARTED}
        answers: dict[str, Any] = {
            "/gameservers": {"servers": [city | {"expectedPlayers": []}]},
            "/gameservers/handle": {"id": "city-2"},
            "/gameservers/console": {"lines": ["Loading the city", "Listening on 8777"]},
        }
        return succeed(Reply(200, answers.get(path, {"host": "203.0.113.9", "port": 8775})))


class Evening(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, http=GameServers(), **EVERY_ROUTE)
        self.ann, self.bob, self.cleo = map(self.game.player, ("Ann", "Bob", "Cleo"))
        self.olga = self.game.player("Olga", admin=True)
        self.game.described.shown = True

    def ask(self, who: Player, line: str, body: Any = None, **more: Any) -> Any:
        """Send a request that must succeed; ``line`` is a method and a path."""
        method, path = line.split(" ")
        sent = more | ({} if body is None else {"json": body})
        proof = {"key": who.key} if path.startswith("/svc/") else {"token": who.token}
        page = self.game.browse(method, path, **sent, **proof)
        self.assertIn(page.status, (200, 204), (line, page.body))
        return page.json if page.body[:1] in (b"{", b"[") else None

    def server(self, line: str, body: Any = None) -> Any:
        """Send a request as a game server."""
        method, path = line.split(" ")
        sent = {} if body is None else {"json": body}
        page = self.game.browse(method, path, game_server=GAME_SERVER_KEY, **sent)
        self.assertEqual(page.status, 200, (line, page.body))
        return page.json

    def character(self) -> str:
        """Return Ann's first character."""
        return str(self.ask(self.ann, "GET /character")[0]["id"])

    def befriend(self, first: Player, second: Player) -> None:
        for me, friend in ((first, second), (second, first)):
            self.ask(me, f"POST {FRIENDS}/friends/{me.id}/{friend.id}")


class TogetherTests(Evening):
    def setUp(self) -> None:
        super().setUp()
        for player in (self.ann, self.bob, self.cleo):
            self.ask(player, "POST /heartbeat", {"map": WORLD, "state": "island"})
        self.befriend(self.ann, self.bob)

    def test_the_examples_of_friends_and_lookups_are_recorded(self) -> None:
        self.ask(self.ann, f"GET {FRIENDS}/friends/{self.ann.id}?includePending=true")
        self.ask(self.ann, "POST /accountinfo/public", {"displayname": "Bob"})
        self.ask(self.ann, "POST /account/mapping", {"accountIds": [self.bob.id]})
        self.ask(self.ann, "POST /login", {"email": self.ann.id})
        self.ask(self.ann, f"GET /account/api/public/account/{self.bob.id}")
        for path in ("/accountinfo", "/account/api/public/account", "/svc/api/GetUserInfo"):
            self.ask(self.ann, f"GET {path}")
        for path in ("/account/api/oauth/verify", "/svc-status"):
            self.ask(self.ann, f"GET {path}")
        self.ask(self.ann, f"POST {FRIENDS}/blocklist/{self.ann.id}/{self.cleo.id}")
        self.ask(self.ann, f"GET {FRIENDS}/blocklist/{self.ann.id}")
        result = self.ask(self.ann, "GET /account/api/public/account/displayName/Bob")
        self.assertEqual(result["id"], self.bob.id)

    def test_a_party_meets_and_hunts(self) -> None:
        poll = {"buildId": "239827_1.4.4_shipping", "featureOverrides": []}
        party = self.ask(self.ann, "POST /party", poll)["partyId"]
        for friend in (self.bob, self.cleo):
            whom = {"recipientPlayerId": friend.id, "partyId": party}
            self.ask(self.ann, "PUT /party/invite", whom)
        [waiting] = self.ask(self.bob, "GET /party/invites")["invitations"]
        self.assertEqual(waiting["sendingPlayerId"], self.ann.id)
        self.ask(self.ann, "DELETE /party/invite", {"recipientPlayerId": self.cleo.id})
        self.ask(self.bob, f"PUT /party/invite/accept/{party}", poll)
        body = self.ask(self.ann, "POST /candidate/join", HUNT)
        self.ask(self.bob, f"POST /candidate/join/{body['candidateId']}")
        self.game.clock.advance(30)
        self.ask(self.ann, "GET /candidate/status")
        status = self.ask(self.ann, "GET /candidate/status")
        self.assertEqual(status["status"], "IN_PROGRESS")
        self.ask(self.ann, "POST /candidate/player/alive", {"playerIds": [self.bob.id]})
        self.ask(self.ann, "POST /party", poll)
        ids = [self.ann.id, self.bob.id]
        self.ask(self.bob, "POST /party/status", {"playerIds": ids})
        self.ask(self.ann, f"PUT /party/member/promote/{self.bob.id}")
        for path in ("PrivateOnlineStats", "ServerStatus"):
            self.ask(self.olga, f"GET /svc/api/{path}")

    def test_links_are_made_and_ended(self) -> None:
        self.befriend(self.ann, self.cleo)
        ids = [self.bob.id, self.olga.id]
        self.ask(self.ann, "POST /slayerlink/availability", {"account_ids": ids})
        body = {"slot": 1, "action_source": "social_panel"}
        for friend in (self.bob, self.cleo):
            made = self.ask(self.ann, "PUT /slayerlink/invite", body | {"account_id": friend.id})
            body["slot"] = 2
        self.ask(self.ann, "GET /slayerlink/invites")
        yes = {
            "account_id": self.ann.id,
            "invite_id": made["payload"]["link_id"],
            "action": "accept",
            "slot": 1,
        }
        self.ask(self.cleo, "POST /slayerlink/invite", yes)
        self.ask(self.ann, "GET /slayerlink/links")
        good = self.ask(self.ann, "GET /slayerlink/status_good")["payload"]
        self.assertEqual((len(good["links"]), len(good["invites"])), (1, 1))
        end = {"account_id": self.cleo.id, "slot": 2, "delete_pair": True}
        self.ask(self.ann, "DELETE /slayerlink/links", end)

    def test_a_guild_is_founded_and_joined(self) -> None:
        named = {"name": "Lanterns", "nameplate": "LAN", "leader_account_id": self.ann.id}
        self.ask(self.ann, "POST /guild/validate", named)
        guild = self.server("POST /guild", named)
        self.ask(self.ann, f"PUT /guild/invite/{self.bob.id}")
        [invite] = self.ask(self.bob, "GET /guild/invite/player")["invites"]
        self.ask(self.bob, f"POST /guild/invite/accept/{invite['id']}")
        self.ask(self.ann, f"PUT /guild/rank/{self.bob.id}/Officer")
        self.assertEqual(len(self.ask(self.ann, "GET /guild")["members"]), 2)
        self.ask(self.ann, "POST /svc/api/GuildInvite", {"Username": "Cleo"})
        self.ask(self.ann, "POST /svc/api/PartyInvite", {"Username": "Cleo"})
        self.ask(self.ann, "POST /svc/api/Friends", {"Username": "Cleo"})
        self.ask(self.olga, "GET /svc/api/Guilds")
        ended = {"Guild": guild["name"], "Reason": "its name"}
        self.ask(self.olga, "POST /svc/api/DisbandGuild", ended)


class HuntersTests(Evening):
    def test_the_examples_of_characters_and_items_are_recorded(self) -> None:
        mine = self.character()
        self.ask(self.ann, "PUT /character", {"name": "Scout"})
        save = {"characterId": mine, "data": '{"level":12}', "updateVersion": 1}
        self.ask(self.ann, "POST /character", save)
        sword = SWORD | {"itemData": '{"power":1}', "updateVersion": 1}
        loot = {"catalogId": "MAT_ORE", "quantity": 5}
        got = {
            "characterId": mine,
            "transactionId": "b1946ac9-2492-4d23-87cf-34d5a3d24b26",
            "source": "hunt",
            "addStackedItems": [loot],
            "addInstancedItems": [sword],
        }
        self.ask(self.ann, "POST /inventory", got)
        self.ask(self.ann, f"GET /inventory/{self.ann.id}/{mine}")
        better = sword | {"itemData": '{"power":2}', "updateVersion": 2, "characterId": mine}
        self.ask(self.ann, "POST /inventory/instanceditem", better)
        path = f"/loadout/{self.ann.id}/{mine}"
        slot = {"slot_index": 0, "weapon": SWORD["instanceId"]}
        self.ask(self.ann, f"POST {path}/0", {"data": orjson.dumps(slot).decode()})
        self.ask(self.ann, f"GET {path}/all")
        self.ask(self.ann, "POST /reconcile", {})
        offer = self.ask(self.ann, f"GET /token/platinum/{CLAW}")
        self.ask(self.ann, f"POST /notification/platinum?token={offer['purchaseToken']}")

    def test_the_examples_of_a_hunters_activity_are_recorded(self) -> None:
        mine = self.character()
        trail = {"breadcrumb_id": "AR_IRON_HELM", "timestamp": 1745622414}
        save = {"breadcrumbs": [trail], "updateVersion": 1}
        self.ask(self.ann, f"POST /breadcrumbs/{mine}", save)
        self.ask(self.ann, f"GET /breadcrumbs/{mine}")
        for name in ("NPC_BLACKSMITH", "NPC_ARMOURER"):
            met = {"content_type": 2, "content_id": name}
            self.ask(self.ann, f"POST /encountered-content/{mine}", met)
        self.ask(self.ann, f"GET /encountered-content/{mine}/2")
        requests = {"content_types": [2, 1]}
        self.ask(self.ann, f"POST /encountered-content/query/{mine}", requests)
        begun = {"cooldown_id": "DAILY_PATROL", "cooldown_started_date": STARTED}
        self.server(f"PUT /cooldown/batch/{self.ann.id}", {"cooldowns": [begun]})
        self.ask(self.ann, f"GET /cooldown/{self.ann.id}")
        bounty = {"bounty_id": "BOUNTY_BREAK_PARTS", "slot_index": 0, "update_version": 1}
        stamped = bounty | {"drafted_timestamp": STARTED}
        for body in ({"bounties": [bounty]}, {"bounties": [stamped]}):
            self.server(f"POST /bounty/{self.ann.id}", body)
        self.ask(self.ann, f"GET /bounty/{self.ann.id}")
        gone = self.server(f"POST /bounty/delete/{self.ann.id}", {"bounty_ids": ["BOUNTY_OLD"]})
        self.assertEqual(gone["code"], "OK")
        season = {
            "escalation_level": 5,
            "next_level_xp": 140,
            "talents_progress": [{"rank": 2, "talent_id": TALENT}],
            "unlock_progress": [{"collected": True, "reward_id": "ESC_Reward_3"}],
            "update_version": 1,
        }
        self.server(f"POST /escalation/ESC_SEASON_1/{self.ann.id}", season)
        self.ask(self.ann, f"GET /escalation/ESC_SEASON_1/{self.ann.id}")

    def test_the_examples_of_a_hunters_rewards_are_recorded(self) -> None:
        self.character()
        earned = {
            "progress_tracks": [{"progression_id": TRACK, "progress": 40}],
            "objectives": [{"objective_id": "OBJ_SLAY_EMBERMANE", "value": 3}],
        }
        self.server(f"POST /progression/{self.ann.id}", earned)
        self.server(f"POST /progression/{self.ann.id}/{TRACK}/25")
        self.server(f"POST /progression/{self.ann.id}/{TRACK}/1/confirm/public")
        for path in ("", f"/{TRACK}"):
            self.ask(self.ann, f"GET /progression/{self.ann.id}{path}")
        for path in ("", "/OBJ_SLAY_EMBERMANE"):
            self.ask(self.ann, f"GET /progression/objectives/{self.ann.id}{path}")
        body = {"entitlement": BOOST, "duration": 720}
        self.server(f"POST /entitlementv2/{self.ann.id}", body)
        self.ask(self.ann, "GET /entitlementsv2")
        self.server(f"POST /huntpass/{self.ann.id}", {"progression_id": "season09b"})
        report = self.ask(self.olga, f"GET /svc/api/Progression?UserId={self.ann.id}")
        self.assertEqual(report["HuntPass"], "season09b")
        self.befriend(self.ann, self.bob)
        hunter = self.game.browse("GET", "/launcher/hunter", key=self.ann.key).json
        self.assertEqual(hunter["friends"], ["Bob"])


class StaffTests(Evening):
    def test_the_examples_of_registration_and_invites_are_recorded(self) -> None:
        made = self.ask(self.olga, "POST /svc/api/CreateInvite", {"uses": 3, "name": "for Dora"})
        own = {"NewInviteCode": "EVENING-OF-HUNTERS", "Uses": 5}
        self.ask(self.olga, "POST /svc/api/RegisterInviteCode", own)
        self.ask(self.olga, "GET /svc/api/InviteCodes")
        self.ask(self.olga, "GET /svc/api/UsernameAvailable?Username=Dora")
        self.ask(self.olga, "POST /launcher/invite", code(made))
        self.ask(self.olga, "POST /launcher/name-free", {"Username": "Dora"} | code(made))
        new = {"Username": "Dora"} | code(made)
        key = self.ask(self.olga, "POST /svc/api/Register", new)["UUK"]
        self.ask(self.olga, "POST /account/api/oauth/token", {"exchange_code": key})
        mode = {"RegistrationStatus": "INVITECODE", "Reason": "friends alone"}
        self.ask(self.olga, "POST /svc/api/RegistrationStatus", mode)
        self.ask(self.olga, "GET /svc/api/RegistrationStatus")
        for path in ("GetAllUsers", "DashboardAccounts"):
            self.ask(self.olga, f"GET /svc/api/{path}")
        self.ask(self.olga, "POST /svc/api/GenerateJWTForUserId", {"UserId": self.bob.id})
        renamed = {"UserId": self.ann.id, "NewUsername": "Ann_2", "Reason": "asked for it"}
        self.assertEqual(
            self.ask(self.olga, "POST /svc/api/RenameUser", renamed)["OldUsername"], "Ann"
        )

    def test_the_examples_of_moderation_are_recorded(self) -> None:
        spam = {"Account": "Ann", "Reason": "spam", "Note": "twice", "For": "1h"}
        self.ask(self.olga, f"POST {STAFF}Mute", spam)
        self.ask(self.olga, f"POST {STAFF}Unmute", {"Account": "Ann", "Reason": "said sorry"})
        cheats = {"Account": "Bob", "Reason": "cheats", "Note": "third time", "For": "7d"}
        self.ask(self.olga, f"POST {STAFF}Ban", cheats)
        self.ask(self.olga, f"GET {STAFF}Sanctions")
        self.ask(self.olga, f"GET {STAFF}Person?Account=Bob")
        self.ask(self.olga, f"POST {STAFF}Unban", {"Account": "Bob", "Reason": "a mistake"})
        self.ask(self.olga, f"POST {STAFF}Kick", {"Account": "Ann", "Reason": "stuck"})
        helper = {"Account": "Cleo", "Role": "helper", "Reason": "helps on weekends"}
        self.ask(self.olga, f"POST {STAFF}Role", helper)
        self.ask(self.olga, f"GET {STAFF}People?Sort=role")
        rows = self.ask(self.olga, f"GET {STAFF}Audit")["rows"]
        self.assertEqual(rows[0]["action"], "role")

    def test_the_examples_of_account_management_are_recorded(self) -> None:
        self.game.ledger.run(
            lambda tx: tx.execute(
                update(ACCOUNTS).where(ACCOUNTS.c.id == self.ann.id).values(notes=70)
            )
        )
        gift = {"UserId": self.bob.id, "Entitlement": BOOST}
        arguments = gift | {"Duration": 24, "Reason": "won the draw"}
        self.ask(self.olga, "POST /svc/api/GrantEntitlement", arguments)
        taken = gift | {"Reason": "by mistake"}
        self.ask(self.olga, "POST /svc/api/RevokeEntitlement", taken)
        seed = {"UserId": self.bob.id, "Mode": "grandfather", "Reason": "played here before"}
        self.ask(self.olga, "POST /svc/api/SeedProgression", seed)
        self.ask(self.olga, f"POST {STAFF}NewKey", {"Account": "Cleo", "Reason": "lost hers"})
        merged = {"Account": "Ann", "To": "Bob", "Reason": "began anew"}
        self.assertEqual(self.ask(self.olga, f"POST {STAFF}MergeNotes", merged)["Moved"], 70)
        self.ask(self.olga, f"POST {STAFF}Export", {"Account": "Ann", "Reason": "asked for it"})
        self.ask(self.olga, f"POST {STAFF}Delete", {"Account": "Ann", "Reason": "asked for it"})

    def test_the_examples_of_running_an_evening_are_recorded(self) -> None:
        night = {"Text": "Hunt night at eight", "For": "2h"}
        self.ask(self.olga, f"POST {STAFF}Announcement", night)
        self.ask(self.olga, f"GET {STAFF}Announcement")
        drain = {"On": True, "Until": "no hunt", "Reason": "new version"}
        self.ask(self.olga, f"POST {STAFF}Drain", drain)
        self.ask(self.olga, f"GET {STAFF}Drain")
        self.ask(self.olga, f"POST {STAFF}Drain", {"On": False})
        self.ask(self.ann, "POST /candidate/join", CITY)
        self.ask(self.olga, f"GET {STAFF}GameServers")
        self.ask(self.olga, f"GET {STAFF}Console?Id=city-1")
        again = {"Act": "restart", "Id": "city-1", "Reason": "it hangs"}
        self.assertEqual(self.ask(self.olga, f"POST {STAFF}GameServer", again), {"id": "city-2"})

    def test_the_examples_of_save_history_are_recorded(self) -> None:
        mine = self.character()
        for version, level in ((1, 11), (2, 12)):
            data = orjson.dumps({"level": level}).decode()
            save = {"characterId": mine, "data": data, "updateVersion": version}
            self.ask(self.ann, "POST /character", save)
            self.ask(self.ann, f"POST /loadout/{self.ann.id}/{mine}/0", {"data": slot(level)})
            self.game.clock.advance(3_600)
        old = {"CharacterId": mine, "Version": 1, "Reason": "a lost save"}
        query = f"CharacterId={mine}&From=1&To=2"
        self.ask(self.olga, f"GET /svc/api/SaveHistory?CharacterId={mine}")
        self.ask(self.olga, f"GET {STAFF}SaveDiff?{query}")
        self.ask(self.olga, f"GET {STAFF}LoadoutDiff?{query}")
        self.ask(self.olga, "POST /svc/api/RollbackLoadout", old)
        back = self.ask(self.olga, "POST /svc/api/RollbackCharacter", old)
        self.assertEqual((back["RolledBackTo"], back["UpdateVersion"]), (1, 3))


def code(made: Any) -> dict[str, str]:
    """Return an example invite code, as a new player sends it."""
    return {"InviteCode": made["code"]}


def slot(level: int) -> str:
    """Return the data of a loadout slot."""
    return orjson.dumps({"slot_index": 0, "weapon": f"WP_SW_LEVEL_{level}"}).decode()
