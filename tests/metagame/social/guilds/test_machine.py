"""Random player requests, with the guild invariants checked after every step."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from svcserver.metagame.social.friends import rules as friends
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.guilds import acts
from svcserver.metagame.social.guilds.names import Words
from svcserver.metagame.social.guilds.rules import MAX_PLAYER_INVITES, MAY_INVITE, GuildLimits, Rank
from svcserver.metagame.social.guilds.store import SqlGuilds, drop_invites_between
from tests.metagame.social.machine import LedgerMachine
from tests.support.effort import machine
from tests.support.proves import proves

PLAYERS = [f"p{number}" for number in range(7)]
NAMES = ["Alpha", "ALPHA", "Bravo", "Delta"]
PLATES = ["", "AA", "aa", "BB"]
LIMITS = GuildLimits(max_members=4, invite_ms=7 * 86_400_000)
WORDS = Words.load_words()
who = st.sampled_from(PLAYERS)


@proves("state: Guild invite", "invites hidden: blocks, inviter no longer Leader or Officer")
class GuildMachine(LedgerMachine):
    players = PLAYERS

    @rule(me=who, name=st.sampled_from(NAMES), plate=st.sampled_from(PLATES))
    def invites(self, me: str, name: str, plate: str) -> None:
        new = acts.NewGuild(me, name, plate, validated=True, may_found=True)
        guild = self.run_rule(lambda tx: acts.found_guild(SqlGuilds(tx), WORDS, new, self.at))
        assert guild is None or guild.leader == me

    @rule(me=who, partner=who)
    def invite(self, me: str, partner: str) -> None:
        def work(tx: Any) -> None:
            acts.invite(SqlGuilds(tx), LIMITS, me, partner, self.at, may_send=True)
            mine = SqlGuilds(tx).member(me)
            assert mine is not None and mine.rank in MAY_INVITE
            invites = acts.open_invites(SqlGuilds(tx), partner, self.at)
            assert mine.guild_id in [guild.id for _, guild in invites]

        self.run_rule(work)

    @rule(me=who, data=st.data(), declines=st.booleans())
    def answer(self, me: str, data: Any, declines: bool) -> None:
        invites = self.ledger.run(lambda tx: acts.open_invites(SqlGuilds(tx), me, self.at))
        if not invites:
            return
        invite, guild = data.draw(st.sampled_from(invites))

        def work(tx: Any) -> None:
            hall = SqlGuilds(tx)
            if declines:
                acts.decline(hall, me, invite.id, self.at)
                return
            member = acts.accept(hall, LIMITS, me, invite.id, self.at)
            assert (member.guild_id, member.rank) == (guild.id, Rank.MEMBER)
            assert acts.open_invites(hall, me, self.at) == []

        self.run_rule(work)

    @rule(me=who, partner=who)
    def kick(self, me: str, partner: str) -> None:
        def work(tx: Any) -> None:
            acts.remove(SqlGuilds(tx), me, partner)
            assert SqlGuilds(tx).member(partner) is None

        self.run_rule(work)

    @rule(me=who, partner=who, word=st.sampled_from(["member", "Officer", "LEADER", "king"]))
    def set_rank(self, me: str, partner: str, word: str) -> None:
        def work(tx: Any) -> None:
            acts.set_rank(SqlGuilds(tx), me, partner, word)
            theirs = SqlGuilds(tx).member(partner)
            assert theirs is not None and theirs.rank.lower() == word.lower()

        self.run_rule(work)

    @rule(me=who)
    def disband(self, me: str) -> None:
        def work(tx: Any) -> None:
            mine = SqlGuilds(tx).member(me)
            if mine is not None:
                acts.disband(SqlGuilds(tx), me, mine.guild_id)
                assert SqlGuilds(tx).guild(mine.guild_id) is None

        self.run_rule(work)

    @rule(me=who, partner=who, at_all=st.booleans())
    def block(self, me: str, partner: str, at_all: bool) -> None:
        def work(tx: Any) -> None:
            if at_all:
                friends.block(SqlFriends(tx), me, partner, self.at)
                drop_invites_between(tx, me, partner)
            else:
                SqlFriends(tx).unblock(me, partner)

        self.run_rule(work)

    @rule(hours=st.sampled_from([1, 24, 169]))
    def pass_time(self, hours: int) -> None:
        self.at += hours * 3_600_000

    @invariant()
    def nobody_is_in_two_guilds_and_each_has_one_leader(self) -> None:
        self.ledger.run(self._check_guilds)

    def _check_guilds(self, tx: Any) -> None:
        hall = SqlGuilds(tx)
        summaries, in_guilds, names, plates = hall.summaries(), set(), set(), set()
        for summary in summaries:
            guild, members = hall.guild(summary.id), hall.members(summary.id)
            assert guild is not None and 1 <= len(members) <= LIMITS.max_members
            leaders = [member.account_id for member in members if member.rank is Rank.LEADER]
            assert leaders == [guild.leader] == [members[0].account_id]
            for member in members:
                assert member.account_id not in in_guilds
                in_guilds.add(member.account_id)
            assert guild.name.lower() not in names
            names.add(guild.name.lower())
            assert not guild.nameplate or guild.nameplate.lower() not in plates
            plates.add(guild.nameplate.lower())
        assert all((hall.member(member) is not None) == (member in in_guilds) for member in PLAYERS)

    @invariant()
    def invites_come_from_those_who_may_and_never_past_a_block(self) -> None:
        self.ledger.run(self._check_invites)

    def _check_invites(self, tx: Any) -> None:
        hall = SqlGuilds(tx)
        for player in PLAYERS:
            invites = acts.open_invites(hall, player, self.at)
            guilds = [guild.id for _, guild in invites]
            assert len(guilds) == len(set(guilds)) <= MAX_PLAYER_INVITES
            for invite, guild in invites:
                inviter = hall.member(invite.inviter)
                assert inviter is not None and inviter.guild_id == guild.id
                assert inviter.rank in MAY_INVITE and self.at < invite.expires_at
                assert not hall.blocked_between(invite.inviter, player)


GuildMachine.TestCase.settings = machine(30, 35)
TestGuildMachine = GuildMachine.TestCase
