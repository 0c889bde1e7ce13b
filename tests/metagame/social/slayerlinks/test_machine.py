"""Random player requests, with the slayer link invariants checked after every step."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from svcserver.metagame.social.friends import rules as friends
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.slayerlinks import acts
from svcserver.metagame.social.slayerlinks.rules import HOUR_MS, SLOTS, InviteAction, InviteAnswer
from svcserver.metagame.social.slayerlinks.store import SqlSlayerLinks, cancel_between
from tests.metagame.social.machine import LedgerMachine
from tests.support.effort import machine
from tests.support.proves import proves

PLAYERS = [f"p{number}" for number in range(5)]
who = st.sampled_from(PLAYERS)
slots = st.sampled_from([None, 1, 2, 3])


@proves("state: Slayer link invite and link")
class LinkMachine(LedgerMachine):
    players = PLAYERS

    @rule(me=who, partner=who)
    def befriend(self, me: str, partner: str) -> None:
        def work(tx: Any) -> None:
            for a, b in ((me, partner), (partner, me)):
                friends.request(SqlFriends(tx), a, b, self.at, may_ask=True)

        self.run_rule(work)

    @rule(me=who, partner=who, blocks=st.booleans())
    def part(self, me: str, partner: str, blocks: bool) -> None:
        def work(tx: Any) -> None:
            if blocks:
                friends.block(SqlFriends(tx), me, partner, self.at)
            else:
                friends.unfriend(SqlFriends(tx), me, partner)
            cancel_between(tx, me, partner)

        self.run_rule(work)

    @rule(me=who, partner=who)
    def unblock(self, me: str, partner: str) -> None:
        self.run_rule(lambda tx: SqlFriends(tx).unblock(me, partner))

    @rule(me=who, partner=who, slot=slots)
    def invite(self, me: str, partner: str, slot: int | None) -> None:
        def work(tx: Any) -> None:
            links = SqlSlayerLinks(tx)
            link_id, is_new = acts.invite(links, me, partner, slot, self.at, may_send=True)
            waiting = [invite.link_id for invite in acts.waiting(links, partner, self.at)]
            assert link_id in waiting
            if is_new:
                assert links.are_friends(me, partner)

        self.run_rule(work)

    @rule(me=who, partner=who, slot=slots, action=st.sampled_from(InviteAction))
    def answer(self, me: str, partner: str, slot: int | None, action: InviteAction) -> None:
        def work(tx: Any) -> None:
            link_id = acts.answer(
                SqlSlayerLinks(tx), me, InviteAnswer(action, partner, [], slot), self.at
            )
            waiting = acts.waiting(SqlSlayerLinks(tx), me, self.at)
            assert link_id not in [invite.link_id for invite in waiting]

        self.run_rule(work)

    @rule(me=who, partner=who)
    def drop_invites(self, me: str, partner: str) -> None:
        self.run_rule(lambda tx: acts.drop_invites(SqlSlayerLinks(tx), me, partner, self.at))

    @rule(me=who, partner=st.one_of(st.none(), who), slot=slots)
    def end_link(self, me: str, partner: str | None, slot: int | None) -> None:
        self.run_rule(lambda tx: acts.end_link(SqlSlayerLinks(tx), me, partner, slot, self.at))

    @rule(hours=st.sampled_from([1, 25, 169]))
    def pass_time(self, hours: int) -> None:
        self.at += hours * HOUR_MS

    @invariant()
    def slots_are_never_double_booked(self) -> None:
        self.ledger.run(self._check_slots)

    def _check_slots(self, tx: Any) -> None:
        links = SqlSlayerLinks(tx)
        for me in PLAYERS:
            running = links.running(me, self.at)
            sent = [i for i in acts.waiting(links, me, self.at) if i.sender == me]
            held = [link.slot for link in running] + [invite.slot for invite in sent]
            assert len(held) == len(set(held)) and set(held) <= set(SLOTS)
            partners = [link.partner for link in running]
            assert len(partners) == len(set(partners)) and me not in partners
            for link in running:
                [back] = [two for two in links.running(link.partner, self.at) if two.partner == me]
                assert (back.link_id, back.ends_at) == (link.link_id, link.ends_at)

    @invariant()
    def waiting_invites_are_between_friends_and_one_per_pair(self) -> None:
        self.ledger.run(self._check_invites)

    def _check_invites(self, tx: Any) -> None:
        links = SqlSlayerLinks(tx)
        for me in PLAYERS:
            waiting = acts.waiting(links, me, self.at)
            pairs = [frozenset((invite.sender, invite.recipient)) for invite in waiting]
            assert len(pairs) == len(set(pairs))
            for invite in waiting:
                assert links.are_friends(invite.sender, invite.recipient)
            free = acts.available(links, me, PLAYERS, self.at)
            for partner, is_free in free.items():
                assert not is_free or (
                    links.are_friends(me, partner)
                    and frozenset((me, partner)) not in pairs
                    and partner not in [link.partner for link in links.running(me, self.at)]
                )


LinkMachine.TestCase.settings = machine(30, 30)
TestLinkMachine = LinkMachine.TestCase
