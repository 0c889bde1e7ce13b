"""Random player requests on the board and on a model, which agree after every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svcserver.kernel.refusals import Refusal
from svcserver.kernel.signals import PartyChanged
from svcserver.metagame.social.parties.rules import (
    MAX_MEMBERS,
    MAX_PARTY_INVITES,
    MAX_RECEIVED_INVITES,
    Parties,
    Party,
    PartyInvitation,
)
from svcserver.metagame.social.parties.store import LiveParties
from tests.metagame.social.parties.model import PlainParties
from tests.support.effort import machine
from tests.support.live import TestBoard
from tests.support.proves import proves

PLAYERS = [f"p{number}" for number in range(12)]
who = st.sampled_from(PLAYERS)


@frozen
class Refused:
    """A rejected request."""

    kind: type[Refusal]
    why: str


def answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Refusal as why:
        return Refused(type(why), why.message)


@proves(
    "state: Party invite",
    "limit: Party size; pending invites per party; per recipient; invite expiry",
)
class PartyMachine(RuleBasedStateMachine):
    make_live: Callable[..., Any] = TestBoard

    def __init__(self) -> None:
        super().__init__()
        self.live = type(self).make_live(now=1000.0)
        self.parties = LiveParties(self.live.board)
        self.model = PlainParties()
        self.named: dict[str, str] = {}  # the model's name of each party of the board
        self.blocked: set[frozenset[str]] = set()
        self.rooms: dict[str, set[str]] = {}  # the rooms as the chat would keep them
        self.left: list[tuple[str, str]] = []
        self.model_left: list[tuple[str, str]] = []
        self.live.board.listen(PartyChanged, self.heard_of_leaving)
        self.model.changed.connect(
            lambda news: self.model_left.extend((news.party_id, member) for member in news.left)
        )

    @property
    def now(self) -> float:
        return self.live.now

    def heard_of_leaving(self, news: PartyChanged) -> None:
        for member in news.left:
            assert member in self.rooms[news.party_id]
            self.rooms[news.party_id].discard(member)
            self.left.append((self.named[news.party_id], member))

    def do(self, work: Callable[[Parties], Any]) -> Any:
        return self.live.do(lambda transaction: work(self.parties.rules_on(transaction)))

    def both(
        self, work: Callable[[Parties], Any], model: Callable[[PlainParties], Any]
    ) -> tuple[Any, Any]:
        """Return the board's result and assert that the model's result is equal."""
        expected = answer(lambda: model(self.model))
        result = answer(lambda: self.do(work))
        assert self.as_named(result) == expected, (result, expected)
        return result, expected

    def as_named(self, result: Any) -> Any:
        """Replace the board's party ids with the model's ids."""
        if isinstance(result, Party):
            return evolve(result, id=self.named.get(result.id, result.id))
        if isinstance(result, PartyInvitation):
            return evolve(result, party_id=self.named.get(result.party_id, result.party_id))
        return [self.as_named(item) for item in result] if isinstance(result, list) else result

    @rule(me=who)
    def poll(self, me: str) -> None:
        mine = self.model.poll(me, self.now)
        party = self.do(lambda parties: parties.poll(me))
        assert me in party.members
        self.named.setdefault(party.id, mine.id)
        assert self.as_named(party) == mine
        self.rooms.setdefault(party.id, set()).add(me)

    @rule(me=who, partner=who)
    def invite(self, me: str, partner: str) -> None:
        blocked = frozenset((me, partner)) in self.blocked
        self.poll(me)  # a refused invite makes no party on the board
        result, _ = self.both(
            lambda parties: parties.invite(me, partner, blocked=blocked),
            lambda model: model.invite(me, partner, self.now, blocked=blocked),
        )
        if not isinstance(result, Refused):
            assert not blocked and me != partner and result.leader == me

    @rule(me=who, data=st.data())
    def accept(self, me: str, data: Any) -> None:
        invites = self.do(lambda parties: parties.invites_to(me))
        if not invites:
            return
        invite = data.draw(st.sampled_from(invites))
        result, _ = self.both(
            lambda parties: parties.accept(invite),
            lambda model: model.accept(self.as_named(invite), self.now),
        )
        if not isinstance(result, Refused):
            assert result.members[-1] == me
            self.rooms[result.id].add(me)

    @rule(me=who, data=st.data(), by_party=st.booleans())
    def decline(self, me: str, data: Any, by_party: bool) -> None:
        invites = self.do(lambda parties: parties.invites_to(me))
        if invites:
            invite = data.draw(st.sampled_from(invites))
            mine = self.as_named(invite)
            result, _ = self.both(
                lambda parties: parties.decline(
                    me, [invite.party_id if by_party else invite.sender]
                ),
                lambda model: model.decline(
                    me, [mine.party_id if by_party else mine.sender], self.now
                ),
            )
            assert result
            assert invite not in self.do(lambda parties: parties.invites_to(me))

    @rule(me=who, partner=who)
    def withdraw(self, me: str, partner: str) -> None:
        self.model.sweep(self.now)
        self.do(lambda parties: parties.withdraw(me, partner))
        self.model.withdraw(me, partner)
        left = self.do(lambda parties: parties.invites_to(partner))
        assert all(invite.sender != me for invite in left)

    @rule(me=who)
    def leave(self, me: str) -> None:
        self.both(lambda parties: parties.leave(me), lambda model: model.leave(me, self.now))
        assert self.do(lambda parties: parties.party_of(me)) is None

    @rule(me=who, partner=who)
    def kick(self, me: str, partner: str) -> None:
        result, _ = self.both(
            lambda parties: parties.kick(me, partner),
            lambda model: model.kick(me, partner, self.now),
        )
        if isinstance(result, Refused):
            # as the product does after a refused request
            self.do(lambda parties: parties.mark_seen(me))
        else:
            assert self.do(lambda parties: parties.party_of(partner)) is None

    @rule(me=who, partner=who)
    def promote(self, me: str, partner: str) -> None:
        self.poll(me)
        result, _ = self.both(
            lambda parties: parties.promote(me, partner),
            lambda model: model.promote(me, partner, self.now),
        )
        if not isinstance(result, Refused):
            party = self.do(lambda parties: parties.party_of(partner))
            assert party is not None and party.leader == partner

    @rule(me=who)
    def hear(self, me: str) -> None:
        self.both(lambda parties: parties.mark_seen(me), lambda model: model.hear(me, self.now))

    @rule(me=who, partner=who)
    def block(self, me: str, partner: str) -> None:
        if me != partner:
            self.blocked.add(frozenset((me, partner)))
            self.both(
                lambda parties: parties.part(me, partner), lambda model: model.part(me, partner)
            )

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0, 121.0, 301.0, 4000.0]))
    def pass_time(self, seconds: float) -> None:
        self.live.now += seconds

    @invariant()
    def everyone_is_in_one_party_with_one_leader(self) -> None:
        parties_seen: dict[str, str] = {}
        self.model.sweep(self.now)
        for me in PLAYERS:
            party, _ = self.both(
                lambda parties, me=me: parties.party_of(me),
                lambda model, me=me: model.of(me, self.now),
            )
            if party is None:
                continue
            assert 1 <= len(party.members) <= MAX_MEMBERS
            assert len(set(party.members)) == len(party.members)
            assert party.leader in party.members
            assert parties_seen.setdefault(me, party.id) == party.id
            assert self.rooms[party.id] == set(party.members)

    @invariant()
    def invites_keep_their_limits_and_a_blocked_pair_has_none(self) -> None:
        by_party: dict[str, int] = {}
        for me in PLAYERS:
            invites, _ = self.both(
                lambda parties, me=me: parties.invites_to(me),
                lambda model, me=me: model.invites_to(me, self.now),
            )
            assert len(invites) <= MAX_RECEIVED_INVITES
            for invite in invites:
                by_party[invite.party_id] = by_party.get(invite.party_id, 0) + 1
                party = self.do(lambda parties, invite=invite: parties.get(invite.party_id))
                assert party is not None and invite.sender in party.members
                assert self.now - invite.at < 300
                assert frozenset((invite.sender, me)) not in self.blocked
        assert all(count <= MAX_PARTY_INVITES for count in by_party.values())

    @invariant()
    def both_told_of_the_same_leavers(self) -> None:
        assert sorted(self.left) == sorted(self.model_left)

    @invariant()
    def the_two_indexes_of_invites_agree(self) -> None:
        def by_both(parties: Parties) -> tuple[set[PartyInvitation], set[PartyInvitation]]:
            stored, now = parties.stored, self.now
            received = {invite for me in PLAYERS for invite in stored.received(me)}
            pending = {invite for me in self.named for invite in stored.pending(me)}
            return tuple(
                {i for i in invites if now - i.at < 300} for invites in (received, pending)
            )

        by_recipient, by_party = self.do(by_both)
        assert by_recipient == by_party


PartyMachine.TestCase.settings = machine(60, 50)
TestPartyMachine = PartyMachine.TestCase
