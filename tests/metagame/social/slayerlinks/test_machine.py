"""Players act at random; what must hold of slayer links holds after every step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svcserver.kernel.refusals import Refusal
from svcserver.metagame.social.friends import rules as friends
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.slayerlinks import rules
from svcserver.metagame.social.slayerlinks.rules import HOUR_MS, SLOTS, Action, Reply
from svcserver.metagame.social.slayerlinks.store import SqlSlayerLinks, cancel_between
from tests.support.effort import machine
from tests.support.ledger import InstantLedger
from tests.support.people import add_accounts
from tests.support.proves import proves

PLAYERS = [f"p{number}" for number in range(5)]
who = st.sampled_from(PLAYERS)
slots = st.sampled_from([None, 1, 2, 3])


@proves("state: Slayer link invite and link")
class LinkMachine(RuleBasedStateMachine):
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

    @rule(one=who, other=who)
    def befriend(self, one: str, other: str) -> None:
        def work(tx: Any) -> None:
            for a, b in ((one, other), (other, one)):
                friends.request(SqlFriends(tx), a, b, self.at, may_ask=True)

        self.run_rule(work)

    @rule(one=who, other=who, blocks=st.booleans())
    def part(self, one: str, other: str, blocks: bool) -> None:
        def work(tx: Any) -> None:
            if blocks:
                friends.block(SqlFriends(tx), one, other, self.at)
            else:
                friends.unfriend(SqlFriends(tx), one, other)
            cancel_between(tx, one, other)

        self.run_rule(work)

    @rule(one=who, other=who)
    def unblock(self, one: str, other: str) -> None:
        self.run_rule(lambda tx: SqlFriends(tx).unblock(one, other))

    @rule(one=who, other=who, slot=slots)
    def invite(self, one: str, other: str, slot: int | None) -> None:
        def work(tx: Any) -> None:
            links = SqlSlayerLinks(tx)
            link_id, is_new = rules.invite(links, one, other, slot, self.at, may_send=True)
            waiting = [invite.link_id for invite in rules.waiting(links, other, self.at)]
            assert link_id in waiting
            if is_new:
                assert links.are_friends(one, other)

        self.run_rule(work)

    @rule(one=who, other=who, slot=slots, action=st.sampled_from(Action))
    def answer(self, one: str, other: str, slot: int | None, action: Action) -> None:
        def work(tx: Any) -> None:
            link_id = rules.answer(SqlSlayerLinks(tx), one, Reply(action, other, [], slot), self.at)
            waiting = rules.waiting(SqlSlayerLinks(tx), one, self.at)
            assert link_id not in [invite.link_id for invite in waiting]

        self.run_rule(work)

    @rule(one=who, other=who)
    def drop_invites(self, one: str, other: str) -> None:
        self.run_rule(lambda tx: rules.drop_invites(SqlSlayerLinks(tx), one, other, self.at))

    @rule(one=who, other=st.one_of(st.none(), who), slot=slots)
    def end_link(self, one: str, other: str | None, slot: int | None) -> None:
        self.run_rule(lambda tx: rules.end_link(SqlSlayerLinks(tx), one, other, slot, self.at))

    @rule(hours=st.sampled_from([1, 25, 169]))
    def pass_time(self, hours: int) -> None:
        self.at += hours * HOUR_MS

    @invariant()
    def slots_are_never_double_booked(self) -> None:
        self.ledger.run(self._check_slots)

    def _check_slots(self, tx: Any) -> None:
        links = SqlSlayerLinks(tx)
        for one in PLAYERS:
            running = links.running(one, self.at)
            sent = [i for i in rules.waiting(links, one, self.at) if i.sender == one]
            held = [link.slot for link in running] + [invite.slot for invite in sent]
            assert len(held) == len(set(held)) and set(held) <= set(SLOTS)
            others = [link.other for link in running]
            assert len(others) == len(set(others)) and one not in others
            for link in running:
                [back] = [two for two in links.running(link.other, self.at) if two.other == one]
                assert (back.link_id, back.ends_at) == (link.link_id, link.ends_at)

    @invariant()
    def waiting_invites_are_between_friends_and_one_per_pair(self) -> None:
        self.ledger.run(self._check_invites)

    def _check_invites(self, tx: Any) -> None:
        links = SqlSlayerLinks(tx)
        for one in PLAYERS:
            waiting = rules.waiting(links, one, self.at)
            pairs = [frozenset((invite.sender, invite.recipient)) for invite in waiting]
            assert len(pairs) == len(set(pairs))
            for invite in waiting:
                assert links.are_friends(invite.sender, invite.recipient)
            free = rules.available(links, one, PLAYERS, self.at)
            for other, is_free in free.items():
                assert not is_free or (
                    links.are_friends(one, other)
                    and frozenset((one, other)) not in pairs
                    and other not in [link.other for link in links.running(one, self.at)]
                )


LinkMachine.TestCase.settings = machine(30, 30)
TestLinkMachine = LinkMachine.TestCase
