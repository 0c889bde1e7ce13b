"""Players act at random; what must hold of parties holds after every step."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svcserver.kernel.refusals import Refusal
from svcserver.kernel.signals import Blocked, PartyChanged
from svcserver.metagame.social.parties.rules import (
    MAX_MEMBERS,
    MAX_PARTY_INVITES,
    MAX_RECEIVED_INVITES,
    PartiesInMemory,
)
from tests.support.proves import proves

PLAYERS = [f"p{number}" for number in range(12)]
who = st.sampled_from(PLAYERS)


@proves(
    "state: Party invite",
    "limit: Party size; pending invites per party; per recipient; invite expiry",
)
class PartyMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.parties = PartiesInMemory()
        self.now = 1000.0
        self.blocked: set[frozenset[str]] = set()
        self.rooms: dict[str, set[str]] = {}  # as the chat would keep them
        self.parties.changed.connect(self.heard_of_leaving)

    def heard_of_leaving(self, news: PartyChanged) -> None:
        for one in news.left:
            assert one in self.rooms[news.party_id]
            self.rooms[news.party_id].discard(one)

    @rule(one=who)
    def poll(self, one: str) -> None:
        party = self.parties.poll(one, self.now)
        assert one in party.members
        self.rooms.setdefault(party.id, set()).add(one)

    @rule(one=who, other=who)
    def invite(self, one: str, other: str) -> None:
        blocked = frozenset((one, other)) in self.blocked
        party_before = self.parties.of(one, self.now)
        try:
            party = self.parties.invite(one, other, self.now, blocked=blocked)
        except Refusal:
            mine = self.parties.of(one, self.now)
            if mine is not None:
                self.rooms.setdefault(mine.id, set()).add(one)
            return
        assert not blocked and one != other and party.leader == one
        assert party_before is None or party_before.id == party.id
        self.rooms.setdefault(party.id, set()).add(one)

    @rule(one=who, data=st.data())
    def accept(self, one: str, data: Any) -> None:
        invites = self.parties.invites_to(one, self.now)
        if not invites:
            return
        invite = data.draw(st.sampled_from(invites))
        with suppress(Refusal):
            party = self.parties.accept(invite, self.now)
            assert party.members[-1] == one
            self.rooms[party.id].add(one)

    @rule(one=who, data=st.data(), by_party=st.booleans())
    def decline(self, one: str, data: Any, by_party: bool) -> None:
        invites = self.parties.invites_to(one, self.now)
        if invites:
            invite = data.draw(st.sampled_from(invites))
            named = invite.party_id if by_party else invite.sender
            assert self.parties.decline(one, [named], self.now)
            assert invite not in self.parties.invites_to(one, self.now)

    @rule(one=who, other=who)
    def withdraw(self, one: str, other: str) -> None:
        self.parties.withdraw(one, other)
        assert all(i.sender != one for i in self.parties.invites_to(other, self.now))

    @rule(one=who)
    def leave(self, one: str) -> None:
        self.parties.leave(one, self.now)
        assert self.parties.of(one, self.now) is None

    @rule(one=who, other=who)
    def kick(self, one: str, other: str) -> None:
        with suppress(Refusal):
            self.parties.kick(one, other, self.now)
            assert self.parties.of(other, self.now) is None

    @rule(one=who, other=who)
    def promote(self, one: str, other: str) -> None:
        with suppress(Refusal):
            self.parties.promote(one, other, self.now)
            party = self.parties.of(other, self.now)
            assert party is not None and party.leader == other
        mine = self.parties.of(one, self.now)
        if mine is not None:
            self.rooms.setdefault(mine.id, set()).add(one)

    @rule(one=who, other=who)
    def block(self, one: str, other: str) -> None:
        if one != other:
            self.blocked.add(frozenset((one, other)))
            self.parties.on_blocked(Blocked(one, other))

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0, 121.0, 301.0, 4000.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def everyone_is_in_one_party_with_one_leader(self) -> None:
        seen: dict[str, str] = {}
        for one in PLAYERS:
            party = self.parties.of(one, self.now)
            if party is None:
                continue
            assert 1 <= len(party.members) <= MAX_MEMBERS
            assert len(set(party.members)) == len(party.members)
            assert party.leader in party.members
            assert seen.setdefault(one, party.id) == party.id
            assert self.rooms[party.id] == set(party.members)

    @invariant()
    def invites_keep_their_limits_and_a_blocked_pair_has_none(self) -> None:
        by_party: dict[str, int] = {}
        for one in PLAYERS:
            invites = self.parties.invites_to(one, self.now)
            assert len(invites) <= MAX_RECEIVED_INVITES
            for invite in invites:
                by_party[invite.party_id] = by_party.get(invite.party_id, 0) + 1
                party = self.parties.get(invite.party_id, self.now)
                assert party is not None and invite.sender in party.members
                assert self.now - invite.at < 300
                assert frozenset((invite.sender, one)) not in self.blocked
        assert all(count <= MAX_PARTY_INVITES for count in by_party.values())

    @invariant()
    def the_two_indexes_of_invites_agree(self) -> None:
        by_recipient = {
            (party_id, one) for one, held in self.parties._invites.items() for party_id in held
        }
        by_party = {
            (party_id, one) for party_id, held in self.parties._invited.items() for one in held
        }
        assert by_recipient == by_party
        assert set(self.parties._heard) == set(self.parties._party_of)


PartyMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestPartyMachine = PartyMachine.TestCase
