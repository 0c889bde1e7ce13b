"""Guild invites. Spec: 1 §3 Guild invite, §4 Guilds, §8."""

from sqlalchemy import func, select

from svcserver.metagame.social.guilds.store import GUILD_INVITES, SqlGuilds
from tests.metagame.social.guilds.base import DAY, Base
from tests.support.proves import proves


class InviteTests(Base):
    def setUp(self) -> None:
        super().setUp()
        self.guild_id = self.create_guild(self.ann)

    @proves("GET /guild/invite/player")
    def test_an_invite_has_four_keys_newest_first(self) -> None:
        self.create_guild(self.bob, "Hunters")
        self.ack(self.invite(self.ann, self.cat))
        self.ack(self.invite(self.bob, self.cat))
        page = self.do("GET", "/invite/player", self.cat)
        invites = page.json["invites"]
        self.assertEqual([invite["guild_name"] for invite in invites], ["Hunters", "Slayers"])
        expected = {
            "id": invites[1]["id"],
            "guild_id": self.guild_id,
            "guild_name": "Slayers",
            "inviter_account_id": self.ann.id,
        }
        self.assertEqual(invites[1], expected)
        self.assertEqual(page.json["payload"], {"invites": invites})
        self.assertEqual(list(page.json), ["code", "message", "payload", "invites"])

    @proves("PUT /guild/invite/:accountId", "other refusals", "Guild refusals")
    def test_guild_invites_are_refused_in_the_documented_order(self) -> None:
        self.join(self.ann, self.bob)
        self.block(self.dan, self.ann)
        for by, target, status, word in (
            (self.cat, self.ann.id, 404, "Excluded"),
            (self.bob, self.ann.id, 403, "Sly"),
            (self.ann, self.ann.id, 409, "Cloned"),
            (self.ann, self.bob.id, 409, "Cloned"),
            (self.ann, "UID-nobody", 404, ""),
            (self.ann, "a.b", 404, ""),
            (self.ann, self.dan.id, 403, ""),
        ):
            self.refused(self.do("PUT", f"/invite/{target}", by), status, word)
        self.ack(self.invite(self.ann, self.cat))
        self.refused(self.invite(self.ann, self.cat), 409, "Redundant")
        self.block(self.ann, self.cat)
        self.refused(self.invite(self.ann, self.cat), 403, "")

    @proves("PUT /guild/invite/:accountId")
    def test_an_officer_can_invite_players_to_the_guild(self) -> None:
        self.join(self.ann, self.bob)
        self.ack(self.rank(self.ann, self.bob, "officer"))
        self.ack(self.invite(self.bob, self.cat))
        self.assertEqual(self.invites(self.cat)[0]["inviter_account_id"], self.bob.id)

    @proves("state: Guild invite", "POST /guild/invite/accept/:inviteId")
    def test_accepting_joins_as_member_and_ends_all_other_invites(self) -> None:
        self.create_guild(self.bob, "Hunters")
        self.ack(self.invite(self.ann, self.cat))
        self.ack(self.invite(self.bob, self.cat))
        hunters, slayers = (invite["id"] for invite in self.invites(self.cat))
        self.refused(self.do("POST", f"/invite/accept/{slayers}", self.dan), 404, "Uninvited")
        self.refused(self.do("POST", "/invite/accept/x", self.cat), 404, "Uninvited")
        self.ack(self.do("POST", f"/invite/accept/{slayers}", self.cat))
        self.assertEqual(self.ranks(self.ann)[self.cat.id], "Member")
        self.assertEqual(self.invites(self.cat), [])
        for invite_id in (slayers, hunters):
            page = self.do("POST", f"/invite/accept/{invite_id}", self.cat)
            self.refused(page, 404, "Uninvited")

    @proves("POST /guild/invite/accept/:inviteId")
    def test_a_player_in_another_guild_must_leave_first(self) -> None:
        self.create_guild(self.bob, "Hunters")
        self.join(self.bob, self.cat)
        self.ack(self.invite(self.ann, self.cat))
        [invite] = self.invites(self.cat)
        path = f"/invite/accept/{invite['id']}"
        self.refused(self.do("POST", path, self.cat), 409, "Occupied")
        self.ack(self.do("DELETE", "/player", self.cat))
        self.ack(self.do("POST", path, self.cat))

    @proves(
        "state: Guild invite",
        "DELETE /guild/invite/:inviteId",
        "limit: Guild invite pause after decline",
    )
    def test_declining_pauses_that_guild_for_a_day(self) -> None:
        self.ack(self.invite(self.ann, self.cat))
        [invite] = self.invites(self.cat)
        path = f"/invite/{invite['id']}"
        self.refused(self.do("DELETE", path, self.dan), 404, "Uninvited")
        self.ack(self.do("DELETE", path, self.cat))
        self.assertEqual(self.invites(self.cat), [])
        self.refused(self.do("DELETE", path, self.cat), 404, "Uninvited")
        page = self.do("POST", f"/invite/accept/{invite['id']}", self.cat)
        self.refused(page, 404, "Uninvited")
        self.game.clock.advance(DAY - 1)
        self.refused(self.invite(self.ann, self.cat), 429, "")
        self.create_guild(self.bob, "Hunters")
        self.ack(self.invite(self.bob, self.cat))
        self.game.clock.advance(1)
        self.ack(self.invite(self.ann, self.cat))

    @proves("state: Guild invite", "limit: Guild invite lifetime")
    def test_an_invite_lives_seven_days(self) -> None:
        self.ack(self.invite(self.ann, self.cat))
        [invite] = self.invites(self.cat)
        self.game.clock.advance(7 * DAY - 1)
        self.assertEqual(len(self.invites(self.cat)), 1)
        self.game.clock.advance(1)
        self.assertEqual(self.invites(self.cat), [])
        page = self.do("POST", f"/invite/accept/{invite['id']}", self.cat)
        self.refused(page, 404, "Uninvited")
        self.ack(self.invite(self.ann, self.cat))

    @proves(
        "state: Guild invite",
        "POST /friends/api/public/blocklist/:userId/:friendId",
        "PUT /friends/api/public/blocklist/:userId/:friendId",
        "invites hidden: blocks, inviter no longer Leader or Officer",
    )
    def test_a_block_ends_the_invites_between_the_two_for_good(self) -> None:
        self.ack(self.invite(self.ann, self.cat))
        [invite] = self.invites(self.cat)
        self.block(self.cat, self.ann)
        self.assertEqual(self.invites(self.cat), [])
        self.block(self.cat, self.ann, "DELETE")
        self.assertEqual(self.invites(self.cat), [])
        page = self.do("POST", f"/invite/accept/{invite['id']}", self.cat)
        self.refused(page, 404, "Uninvited")

    @proves("state: Guild invite")
    def test_a_demoted_kicked_or_leaving_officer_takes_the_invites_along(self) -> None:
        self.join(self.ann, self.bob)
        for end in (
            lambda: self.rank(self.ann, self.bob, "member"),
            lambda: self.do("DELETE", f"/player/{self.bob.id}", self.ann),
            lambda: self.do("DELETE", "/player", self.bob),
        ):
            if self.mine(self.bob) is None:
                self.join(self.ann, self.bob)
            self.ack(self.rank(self.ann, self.bob, "officer"))
            self.ack(self.invite(self.bob, self.cat))
            self.ack(end())
            self.assertEqual(self.invites(self.cat), [])

    def test_a_demoted_officers_invite_does_not_block_a_new_invite(self) -> None:
        self.join(self.ann, self.bob)
        self.ack(self.rank(self.ann, self.bob, "officer"))
        self.ack(self.invite(self.bob, self.cat))
        self.refused(self.invite(self.ann, self.cat), 409, "Redundant")
        self.ack(self.rank(self.ann, self.bob, "member"))
        self.ack(self.invite(self.ann, self.cat))
        self.assertEqual(len(self.invites(self.cat)), 1)

    def test_handing_over_keeps_the_old_leaders_invites(self) -> None:
        self.join(self.ann, self.bob)
        self.ack(self.invite(self.ann, self.cat))
        self.ack(self.rank(self.ann, self.bob, "leader"))
        self.assertEqual(len(self.invites(self.cat)), 1)

    @proves("limit: Guild open invites; invites sent per inviter")
    def test_a_player_sends_at_most_thirty_guild_invites_an_hour(self) -> None:
        players = [self.game.player(f"Other_{number}") for number in range(31)]
        for player in players[:30]:
            self.ack(self.invite(self.ann, player))
        self.refused(self.invite(self.ann, players[0]), 409, "Redundant")
        self.refused(self.invite(self.ann, players[30]), 429, "")
        self.game.clock.advance(3600)
        self.ack(self.invite(self.ann, players[30]))

    @proves("limit: Guild open invites; invites sent per inviter")
    def test_a_guild_has_at_most_fifty_open_invites(self) -> None:
        players = [self.game.player(f"Other_{number}") for number in range(51)]
        for number, player in enumerate(players[:50]):
            if number == 30:
                self.game.clock.advance(3600)
            self.ack(self.invite(self.ann, player))
        self.game.clock.advance(3600)
        self.refused(self.invite(self.ann, players[50]), 429, "")
        [invite] = self.invites(players[0])
        self.ack(self.do("DELETE", f"/invite/{invite['id']}", players[0]))
        self.ack(self.invite(self.ann, players[50]))

    @proves("limit: Open guild invites per player")
    def test_a_21st_invite_of_a_player_drops_the_oldest(self) -> None:
        for number in range(21):
            leader = self.game.player(f"Leader_{number}")
            self.create_guild(leader, f"Guild{number}")
            self.ack(self.invite(leader, self.cat))
            self.game.clock.advance(1)
        names = [invite["guild_name"] for invite in self.invites(self.cat)]
        self.assertEqual(names, [f"Guild{number}" for number in range(20, 0, -1)])

    def test_old_invites_and_old_refusals_are_swept(self) -> None:
        self.ack(self.invite(self.ann, self.bob))
        [invite] = self.invites(self.bob)
        self.ack(self.do("DELETE", f"/invite/{invite['id']}", self.bob))
        self.ack(self.invite(self.ann, self.cat))
        rows = select(func.count()).select_from(GUILD_INVITES)
        for later, left in ((0, 2), (DAY - 1, 2), (1, 1), (6 * DAY, 0)):
            self.game.clock.advance(later)
            player = self.game.player(f"Other_{later}")
            self.ack(self.invite(self.ann, player))
            [fresh] = self.invites(player)
            self.game.ledger.run(lambda tx, invite=fresh: SqlGuilds(tx).drop_invite(invite["id"]))
            count = self.game.ledger.run(lambda tx: tx.execute(rows).scalar_one())
            self.assertEqual(count, left, later)


class SmallGuildTests(Base):
    environ = {"GUILD_MAX_MEMBERS": "2", "GUILD_INVITE_TTL_DAYS": "0.5"}  # noqa: RUF012

    @proves("other refusals", "limit: Guild members")
    def test_a_full_guild_neither_invites_nor_takes(self) -> None:
        self.create_guild(self.ann)
        self.assertEqual(self.mine(self.ann)["maximum_guild_members"], 2)
        self.ack(self.invite(self.ann, self.cat))
        self.ack(self.invite(self.ann, self.dan))
        self.join(self.ann, self.bob)
        self.refused(self.invite(self.ann, self.game.player("Eve")), 409, "Stuffed")
        [invite] = self.invites(self.cat)
        path = f"/invite/accept/{invite['id']}"
        self.refused(self.do("POST", path, self.cat), 409, "Stuffed")
        self.ack(self.do("DELETE", "/player", self.bob))
        self.ack(self.do("POST", path, self.cat))

    @proves("limit: Guild invite lifetime")
    def test_an_invite_expires_after_the_configured_lifetime(self) -> None:
        self.create_guild(self.ann)
        self.ack(self.invite(self.ann, self.cat))
        self.game.clock.advance(DAY / 2 - 1)
        self.assertEqual(len(self.invites(self.cat)), 1)
        self.game.clock.advance(1)
        self.assertEqual(self.invites(self.cat), [])
