"""The routes of guilds. Spec: 1 §4 Guilds, §3 Guild invite, §7, §8."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.signals import GuildChanged
from tests.metagame.social.guilds.base import Base
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves


class ReadTests(Base):
    @proves("GET /guild")
    def test_a_guild_is_wrapped_and_flat(self) -> None:
        guild_id = self.create_guild(self.ann, "Slayers", "SLY")
        self.join(self.ann, self.bob, self.cat)
        self.ack(self.rank(self.ann, self.cat, "officer"))
        guild = {
            "id": guild_id,
            "name": "Slayers",
            "nameplate": "SLY",
            "leader_account_id": self.ann.id,
            "members": [
                {"phx_account_id": self.ann.id, "rank": "Leader"},
                {"phx_account_id": self.cat.id, "rank": "Officer"},
                {"phx_account_id": self.bob.id, "rank": "Member"},
            ],
            "maximum_guild_members": 100,
        }
        page = self.do("GET", "", self.bob)
        self.assertEqual(page.json, {"code": "OK", "message": "", "payload": guild} | guild)
        self.assertEqual(list(page.json), ["code", "message", "payload", *guild])

    @proves("GET /guild", "GET /guild/invite/player")
    def test_no_guild_is_204_without_a_body(self) -> None:
        for sent in ({"token": self.ann.token}, {"game_server": GAME_SERVER_KEY}):
            page = self.game.browse("GET", "/guild", **sent)
            self.assertEqual((page.status, page.body), (204, b""))
        empty = {"code": "OK", "message": "", "payload": {"invites": []}, "invites": []}
        for sent in ({"token": self.ann.token}, {"game_server": GAME_SERVER_KEY}):
            page = self.game.browse("GET", "/guild/invite/player", **sent)
            self.assertEqual((page.status, page.json), (200, empty))

    def test_every_row_wants_its_credential(self) -> None:
        rows = (
            ("GET", "", 401, 204),
            ("GET", "/invite/player", 401, 200),
            ("POST", "/validate", 401, 403),
            ("DELETE", "/player", 401, 403),
            ("DELETE", "/player/x", 401, 403),
            ("PUT", "/invite/x", 401, 403),
            ("POST", "/invite/accept/x", 401, 403),
            ("DELETE", "/invite/x", 401, 403),
            ("PUT", "/rank/x/member", 401, 403),
            ("DELETE", "/x", 401, 403),
        )
        for method, path, without, key_alone in rows:
            page = self.game.browse(method, "/guild" + path)
            self.assertEqual(page.status, without, path)
            page = self.game.browse(method, "/guild" + path, game_server=GAME_SERVER_KEY)
            self.assertEqual(page.status, key_alone, path)

    def test_bodies_may_be_empty_with_a_json_type(self) -> None:
        self.create_guild(self.ann)
        for body in (b"", b"{}"):
            head = {"Content-Type": "application/json"}
            path = f"/guild/invite/{self.bob.id}"
            page = self.game.browse("PUT", path, token=self.ann.token, headers=head, data=body)
            self.assertIn(page.status, (200, 409))


class OffTests(Base):
    environ = {"GUILDS": "0"}  # noqa: RUF012

    @proves("GUILDS=0", "GUILDS")
    def test_the_two_reads_are_stubs_and_the_rest_is_the_empty_404(self) -> None:
        self.assertEqual(self.do("GET", "", self.ann).status, 204)
        page = self.do("GET", "/invite/player", self.ann)
        stub = {"code": None, "message": "OK", "payload": {"invites": []}}
        self.assertEqual(page.json, stub)
        for method, path in (
            ("POST", ""),
            ("POST", "/validate"),
            ("DELETE", "/player"),
            ("DELETE", "/player/x"),
            ("PUT", "/invite/x"),
            ("POST", "/invite/accept/x"),
            ("DELETE", "/invite/x"),
            ("PUT", "/rank/x/member"),
            ("DELETE", "/x"),
        ):
            page = self.game.browse(method, "/guild" + path)
            self.assertEqual((page.status, page.body), (404, b""), path)

    @proves("GUILDS=0", "guilds_off")
    def test_management_routes_answer_guilds_off_if_guilds_are_off(self) -> None:
        root = self.game.player("Root", admin=True)
        for method, path in (("POST", "GuildInvite"), ("GET", "Guilds"), ("POST", "DisbandGuild")):
            page = self.game.browse(method, f"/svc/api/{path}", key=root.key)
            self.assertEqual((page.status, page.json["error"]), (404, "guilds_off"))


class CreateTests(Base):
    @proves("POST /guild")
    def test_the_new_guild_is_wrapped_and_flat(self) -> None:
        self.ack(self.validate(self.ann, "slayers", "sly"))
        page = self.create(self.ann, "SLAYERS", "SLY")
        guild = page.json["payload"]
        self.assertEqual((guild["name"], guild["nameplate"]), ("SLAYERS", "SLY"))
        members = [{"phx_account_id": self.ann.id, "rank": "Leader"}]
        self.assertEqual((guild["members"], guild["leader_account_id"]), (members, self.ann.id))
        self.assertEqual(page.json, {"code": "OK", "message": "", "payload": guild} | guild)
        self.assertEqual(self.mine(self.ann), guild)

    @proves("POST /guild")
    def test_only_a_local_game_server_key_creates_a_guild(self) -> None:
        self.ack(self.validate(self.ann, "Slayers"))
        for sent, status in (
            ({"game_server": None, "token": self.ann.token}, 403),
            ({"game_server": None}, 401),
            ({"game_server": "unknown"}, 401),
            ({"headers": {"X-Forwarded-For": "192.0.2.1"}}, 403),
            ({"headers": {"Via": "x"}}, 403),
        ):
            page = self.create(self.ann, "Slayers", **sent)
            self.assertEqual((page.status, page.json["code"]), (status, ""), sent)
        self.assertIsNone(self.mine(self.ann))

    @proves("POST /guild")
    def test_a_bearer_token_beside_the_game_server_key_is_ignored(self) -> None:
        for number, token in enumerate(("rubbish", self.bob.token, "")):
            leader = (self.ann, self.cat, self.dan)[number]
            self.ack(self.validate(leader, f"Guild{number}"))
            page = self.create(leader, f"Guild{number}", token=token)
            self.assertEqual(page.status, 200, page.body)
            self.assertIsNotNone(self.mine(leader))

    @proves("create 1: the leader is an account")
    def test_the_leader_must_be_an_account(self) -> None:
        for leader in (None, 7, "", "a b", "UID-nobody", ["x"]):
            self.refused(self.create(leader, "no"), 400, "")
        page = self.game.browse("POST", "/guild", json=[], game_server=GAME_SERVER_KEY)
        self.refused(page, 400, "")

    @proves("create 2: the leader validated this pair")
    def test_the_leader_must_have_checked_this_very_pair(self) -> None:
        self.refused(self.create(self.ann, "Slayers"), 403, "")
        self.ack(self.validate(self.ann, "Slayers", "SLY"))
        self.ack(self.validate(self.bob, "Hunters"))
        for name, nameplate in (("Slayers", ""), ("Slayers", "SLX"), ("Hunters", "")):
            self.refused(self.create(self.ann, name, nameplate), 403, "")
        for name, nameplate, status, word in (
            ("no", "", 400, "Obedient"),
            ("Fuckers", "", 400, "Nasty"),
            ("Admins", "", 409, "Seized"),
            (None, "", 400, "Obedient"),
            ("Slayers", "SS", 400, "Dirty"),
            ("Slayers", 7, 400, "Dutiful"),
        ):
            self.refused(self.create(self.ann, name, nameplate), status, word)

    @proves("create 2: the leader validated this pair", "limit: Guild create")
    def test_a_name_check_counts_for_15_minutes(self) -> None:
        self.ack(self.validate(self.ann, "Slayers"))
        self.game.clock.advance(900)
        self.refused(self.create(self.ann, "Slayers"), 403, "")
        self.ack(self.validate(self.ann, "Slayers"))
        self.game.clock.advance(899)
        self.assertEqual(self.create(self.ann, "Slayers").status, 200)

    @proves("create 2: the leader validated this pair", "limit: Guild create")
    def test_only_the_last_five_checked_pairs_count(self) -> None:
        for number in range(6):
            self.ack(self.validate(self.ann, f"Guild{number}"))
        self.refused(self.create(self.ann, "Guild0"), 403, "")
        self.assertEqual(self.create(self.ann, "Guild1").status, 200)

    @proves("create 2: the leader validated this pair")
    def test_a_refused_check_is_not_remembered(self) -> None:
        self.create_guild(self.bob, "Slayers")
        self.refused(self.validate(self.ann, "Slayers"), 409, "Seized")
        self.ack(self.do("DELETE", f"/{self.mine(self.bob)['id']}", self.bob))
        self.refused(self.create(self.ann, "Slayers"), 403, "")

    @proves("create 3 and 4: not in a guild, name rules, one in ten minutes", "limit: Guild create")
    def test_create_is_refused_for_membership_then_name_then_rate(self) -> None:
        for name in ("Slayers", "Hunters"):
            self.ack(self.validate(self.ann, name))
        self.ack(self.validate(self.cat, "Hunters"))
        guild_id = self.create(self.cat, "Hunters").json["id"]
        self.refused(self.create(self.ann, "Hunters"), 409, "Seized")
        self.join(self.cat, self.ann)
        self.refused(self.create(self.ann, "Slayers"), 409, "Occupied")
        self.refused(self.create(self.ann, "Hunters"), 409, "Occupied")
        self.ack(self.do("DELETE", f"/{guild_id}", self.cat))
        self.ack(self.validate(self.cat, "Hunters"))
        self.refused(self.create(self.cat, "Hunters"), 429, "")
        self.game.clock.advance(600)
        self.assertEqual(self.create(self.cat, "Hunters").status, 200)

    @proves("create 3 and 4: not in a guild, name rules, one in ten minutes")
    def test_a_refused_create_costs_no_time_and_no_check(self) -> None:
        self.refused(self.create(self.ann, "Slayers"), 403, "")
        self.create_guild(self.ann, "Slayers")

    @proves("success consumes the validated names")
    def test_success_consumes_the_checks(self) -> None:
        self.ack(self.validate(self.ann, "Second"))
        guild_id = self.create_guild(self.ann, "First")
        self.ack(self.do("DELETE", f"/{guild_id}", self.ann))
        self.game.clock.advance(600)
        self.refused(self.create(self.ann, "Second"), 403, "")


class FallbackTests(Base):
    environ = {"GUILD_CREATE_ACTIVITY_FALLBACK": "1"}  # noqa: RUF012

    @proves("create 2: GUILD_CREATE_ACTIVITY_FALLBACK")
    def test_validating_any_name_allows_founding_under_another(self) -> None:
        self.refused(self.create(self.ann, "Slayers"), 403, "")
        self.ack(self.validate(self.ann, "Others"))
        self.assertEqual(self.create(self.ann, "Slayers").status, 200)

    @proves("create 2: GUILD_CREATE_ACTIVITY_FALLBACK", "GUILD_CREATE_ACTIVITY_FALLBACK")
    def test_a_leader_seen_within_a_minute_may_create_a_guild(self) -> None:
        for who, path in ((self.ann, "/heartbeat"), (self.bob, "/party")):
            self.game.browse("POST", path, token=who.token, json={})
            self.game.clock.advance(60)
            self.refused(self.create(who, f"Guild{who.name}"), 403, "")
            self.game.browse("POST", path, token=who.token, json={})
            self.game.clock.advance(59)
            self.assertEqual(self.create(who, f"Guild{who.name}").status, 200)

    @proves("create 2: GUILD_CREATE_ACTIVITY_FALLBACK")
    def test_a_guild_created_without_a_check_obeys_the_name_rules(self) -> None:
        self.game.browse("POST", "/heartbeat", token=self.ann.token, json={})
        self.refused(self.create(self.ann, "no"), 400, "Obedient")


class MembershipTests(Base):
    def setUp(self) -> None:
        super().setUp()
        self.guild_id = self.create_guild(self.ann)
        self.join(self.ann, self.bob, self.cat)

    @proves("DELETE /guild/player", "DELETE /guild/player/:accountId")
    def test_a_member_may_leave_a_guild_but_its_leader_may_not(self) -> None:
        self.ack(self.do("DELETE", "/player", self.bob))
        self.assertIsNone(self.mine(self.bob))
        self.assertEqual(self.left, [GuildChanged(self.guild_id, (self.bob.id,))])
        self.refused(self.do("DELETE", "/player", self.bob), 404, "Excluded")
        self.refused(self.do("DELETE", "/player", self.ann), 409, "Chief")
        self.ack(self.do("DELETE", f"/player/{self.cat.id}", self.cat))
        self.refused(self.do("DELETE", f"/player/{self.ann.id}", self.ann), 409, "Chief")
        self.assertEqual(self.ranks(self.ann), {self.ann.id: "Leader"})

    @proves("DELETE /guild/player/:accountId")
    def test_a_member_can_be_kicked_only_by_a_higher_rank(self) -> None:
        self.ack(self.rank(self.ann, self.cat, "officer"))
        for by, target, status, word in (
            (self.dan, self.bob.id, 404, "Excluded"),
            (self.bob, self.cat.id, 403, "Sly"),
            (self.cat, self.bob.id, 403, "Sly"),
            (self.bob, self.dan.id, 403, "Sly"),
            (self.ann, self.dan.id, 404, "Excluded"),
            (self.ann, "UID-nobody", 404, "Excluded"),
        ):
            self.refused(self.do("DELETE", f"/player/{target}", by), status, word)
        self.ack(self.do("DELETE", f"/player/{self.bob.id}", self.ann))
        self.assertEqual(self.left, [GuildChanged(self.guild_id, (self.bob.id,))])
        self.assertNotIn(self.bob.id, self.ranks(self.ann))

    @proves("PUT /guild/rank/:accountId/:rank")
    def test_a_rank_is_accepted_in_any_letter_case(self) -> None:
        for word, rank in (("OFFICER", "Officer"), ("officer", "Officer"), ("Member", "Member")):
            self.ack(self.rank(self.ann, self.bob, word))
            self.assertEqual(self.ranks(self.ann)[self.bob.id], rank)

    @proves("PUT /guild/rank/:accountId/:rank", "other refusals")
    def test_rank_changes_are_refused_in_the_documented_order(self) -> None:
        self.create_guild(self.dan, "Hunters")
        outsider = self.game.player("Eve")
        for by, target, rank, status, word in (
            (outsider, self.bob, "king", 404, "Excluded"),
            (self.bob, self.dan, "king", 400, "Docile"),
            (self.bob, self.dan, "member", 404, "Excluded"),
            (self.bob, outsider, "member", 404, "Excluded"),
            (self.bob, self.cat, "officer", 403, "Sly"),
            (self.bob, self.cat, "member", 403, "Sly"),
            (self.bob, self.ann, "member", 403, "Sly"),
            (self.ann, self.ann, "member", 403, "Sly"),
            (self.ann, self.ann, "leader", 403, "Sly"),
        ):
            self.refused(self.rank(by, target, rank), status, word)

    @proves("PUT /guild/rank/:accountId/:rank")
    def test_handing_over_makes_the_leader_an_officer(self) -> None:
        self.ack(self.rank(self.ann, self.bob, "Leader"))
        guild = self.mine(self.cat)
        self.assertEqual(guild["leader_account_id"], self.bob.id)
        ranks = [(member["phx_account_id"], member["rank"]) for member in guild["members"]]
        expected = [(self.bob.id, "Leader"), (self.ann.id, "Officer"), (self.cat.id, "Member")]
        self.assertEqual(ranks, expected)
        self.ack(self.do("DELETE", "/player", self.ann))

    @proves("DELETE /guild/:guildId")
    def test_a_disbanded_guild_removes_its_members_and_invites(self) -> None:
        self.ack(self.invite(self.ann, self.dan))
        eve = self.game.player("Eve")
        self.create_guild(eve, "Hunters")
        for by, guild_id, status, word in (
            (self.dan, self.guild_id, 404, "Excluded"),
            (self.ann, "another", 404, "Excluded"),
            (eve, self.guild_id, 404, "Excluded"),
            (self.bob, self.guild_id, 403, "Sly"),
        ):
            self.refused(self.do("DELETE", f"/{guild_id}", by), status, word)
        self.ack(self.do("DELETE", f"/{self.guild_id}", self.ann))
        [news] = self.left
        self.assertEqual(set(news.left), {self.ann.id, self.bob.id, self.cat.id})
        for who in (self.ann, self.bob, self.cat):
            self.assertIsNone(self.mine(who))
        self.assertEqual(self.invites(self.dan), [])
        self.ack(self.validate(self.bob, "Slayers"))


class HostileTextTests(SynchronousTestCase):
    def test_a_name_with_hostile_text_is_only_refused(self) -> None:
        game = Game(self)
        ann = game.player("Ann")
        for path in ("%00", "%F0%9F%98%80", "x" * 300, "a%20b"):
            for method, prefix in (
                ("PUT", "/guild/invite/"),
                ("POST", "/guild/invite/accept/"),
                ("DELETE", "/guild/invite/"),
                ("DELETE", "/guild/player/"),
                ("DELETE", "/guild/"),
            ):
                page = game.browse(method, prefix + path, token=ann.token)
                self.assertEqual(page.status, 404, prefix + path)
