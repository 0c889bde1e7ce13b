"""Players act at random; what must hold of guilds holds after every step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svcserver.kernel.refusals import Refusal
from svcserver.metagame.social.friends import rules as friends
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.guilds import rules
from svcserver.metagame.social.guilds.names import Words
from svcserver.metagame.social.guilds.rules import MAY_INVITE, Limits, Rank, Wish
from svcserver.metagame.social.guilds.store import SqlGuilds, drop_invites_between
from tests.support.effort import machine
from tests.support.ledger import InstantLedger
from tests.support.people import add_accounts
from tests.support.proves import proves

PLAYERS = [f"p{number}" for number in range(7)]
NAMES = ["Alpha", "ALPHA", "Bravo", "Delta"]
PLATES = ["", "AA", "aa", "BB"]
LIMITS = Limits(max_members=4, invite_ms=7 * 86_400_000)
WORDS = Words.of()
who = st.sampled_from(PLAYERS)


@proves("state: Guild invite", "invites hidden: blocks, inviter no longer Leader or Officer")
class GuildMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = InstantLedger()
        self.at = 1_000_000
        self.ledger.run(lambda tx: add_accounts(tx, PLAYERS))

    def teardown(self) -> None:
        self.ledger.free()

    def run_rule(self, work: Callable[[Any], Any]) -> Any:
        with suppress(Refusal):
            return self.ledger.run(work)
        return None

    @rule(one=who, name=st.sampled_from(NAMES), plate=st.sampled_from(PLATES))
    def found(self, one: str, name: str, plate: str) -> None:
        wish = Wish(one, name, plate, validated=True, may_found=True)
        guild = self.run_rule(lambda tx: rules.found(SqlGuilds(tx), WORDS, wish, self.at))
        assert guild is None or guild.leader == one

    @rule(one=who, other=who)
    def invite(self, one: str, other: str) -> None:
        def work(tx: Any) -> None:
            rules.invite(SqlGuilds(tx), LIMITS, one, other, self.at, may_send=True)
            mine = SqlGuilds(tx).member(one)
            assert mine is not None and mine.rank in MAY_INVITE
            found = rules.invites(SqlGuilds(tx), other, self.at)
            assert mine.guild_id in [guild.id for _, guild in found]

        self.run_rule(work)

    @rule(one=who, data=st.data(), declines=st.booleans())
    def answer(self, one: str, data: Any, declines: bool) -> None:
        found = self.ledger.run(lambda tx: rules.invites(SqlGuilds(tx), one, self.at))
        if not found:
            return
        invite, guild = data.draw(st.sampled_from(found))

        def work(tx: Any) -> None:
            hall = SqlGuilds(tx)
            if declines:
                rules.decline(hall, one, invite.id, self.at)
                return
            member = rules.accept(hall, LIMITS, one, invite.id, self.at)
            assert (member.guild_id, member.rank) == (guild.id, Rank.MEMBER)
            assert rules.invites(hall, one, self.at) == []

        self.run_rule(work)

    @rule(one=who, other=who)
    def kick(self, one: str, other: str) -> None:
        def work(tx: Any) -> None:
            rules.kick(SqlGuilds(tx), one, other)
            assert SqlGuilds(tx).member(other) is None

        self.run_rule(work)

    @rule(one=who, other=who, word=st.sampled_from(["member", "Officer", "LEADER", "king"]))
    def set_rank(self, one: str, other: str, word: str) -> None:
        def work(tx: Any) -> None:
            rules.set_rank(SqlGuilds(tx), one, other, word)
            theirs = SqlGuilds(tx).member(other)
            assert theirs is not None and theirs.rank.lower() == word.lower()

        self.run_rule(work)

    @rule(one=who)
    def disband(self, one: str) -> None:
        def work(tx: Any) -> None:
            mine = SqlGuilds(tx).member(one)
            if mine is not None:
                rules.disband(SqlGuilds(tx), one, mine.guild_id)
                assert SqlGuilds(tx).guild(mine.guild_id) is None

        self.run_rule(work)

    @rule(one=who, other=who, at_all=st.booleans())
    def block(self, one: str, other: str, at_all: bool) -> None:
        def work(tx: Any) -> None:
            if at_all:
                friends.block(SqlFriends(tx), one, other, self.at)
                drop_invites_between(tx, one, other)
            else:
                SqlFriends(tx).unblock(one, other)

        self.run_rule(work)

    @rule(hours=st.sampled_from([1, 24, 169]))
    def pass_time(self, hours: int) -> None:
        self.at += hours * 3_600_000

    @invariant()
    def nobody_is_in_two_guilds_and_each_has_one_leader(self) -> None:
        self.ledger.run(self._check_guilds)

    def _check_guilds(self, tx: Any) -> None:
        hall = SqlGuilds(tx)
        summaries, seen, names, plates = hall.summaries(), set(), set(), set()
        for summary in summaries:
            guild, members = hall.guild(summary.id), hall.members(summary.id)
            assert guild is not None and 1 <= len(members) <= LIMITS.max_members
            leaders = [one.account_id for one in members if one.rank is Rank.LEADER]
            assert leaders == [guild.leader] == [members[0].account_id]
            for one in members:
                assert one.account_id not in seen
                seen.add(one.account_id)
            assert guild.name.lower() not in names
            names.add(guild.name.lower())
            assert not guild.nameplate or guild.nameplate.lower() not in plates
            plates.add(guild.nameplate.lower())
        assert all((hall.member(one) is not None) == (one in seen) for one in PLAYERS)

    @invariant()
    def invites_come_from_those_who_may_and_never_past_a_block(self) -> None:
        self.ledger.run(self._check_invites)

    def _check_invites(self, tx: Any) -> None:
        hall = SqlGuilds(tx)
        for one in PLAYERS:
            found = rules.invites(hall, one, self.at)
            guilds = [guild.id for _, guild in found]
            assert len(guilds) == len(set(guilds)) <= rules.MAX_PLAYER_INVITES
            for invite, guild in found:
                inviter = hall.member(invite.inviter)
                assert inviter is not None and inviter.guild_id == guild.id
                assert inviter.rank in MAY_INVITE and self.at < invite.expires_at
                assert not hall.blocked_between(invite.inviter, one)


GuildMachine.TestCase.settings = machine(30, 35)
TestGuildMachine = GuildMachine.TestCase
