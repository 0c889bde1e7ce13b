"""Players act at random, on the board and on a plain model: both say the same after every step."""

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
    Invite,
    Parties,
    Party,
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
    """An answer that is a refusal."""

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
        self.rooms: dict[str, set[str]] = {}  # as the chat would keep them
        self.left: list[tuple[str, str]] = []
        self.model_left: list[tuple[str, str]] = []
        self.live.board.listen(PartyChanged, self.heard_of_leaving)
        self.model.changed.connect(
            lambda news: self.model_left.extend((news.party_id, one) for one in news.left)
        )

    @property
    def now(self) -> float:
        return self.live.now

    def heard_of_leaving(self, news: PartyChanged) -> None:
        for one in news.left:
            assert one in self.rooms[news.party_id]
            self.rooms[news.party_id].discard(one)
            self.left.append((self.named[news.party_id], one))

    def do(self, work: Callable[[Parties], Any]) -> Any:
        return self.live.do(lambda transaction: work(self.parties.on(transaction)))

    def both(
        self, work: Callable[[Parties], Any], model: Callable[[PlainParties], Any]
    ) -> tuple[Any, Any]:
        """The board's answer, which is the model's."""
        expected = answer(lambda: model(self.model))
        found = answer(lambda: self.do(work))
        assert self.as_named(found) == expected, (found, expected)
        return found, expected

    def as_named(self, found: Any) -> Any:
        """With the model's names of parties."""
        if isinstance(found, Party):
            return evolve(found, id=self.named.get(found.id, found.id))
        if isinstance(found, Invite):
            return evolve(found, party_id=self.named.get(found.party_id, found.party_id))
        return [self.as_named(one) for one in found] if isinstance(found, list) else found

    @rule(one=who)
    def poll(self, one: str) -> None:
        mine = self.model.poll(one, self.now)
        party = self.do(lambda parties: parties.poll(one))
        assert one in party.members
        self.named.setdefault(party.id, mine.id)
        assert self.as_named(party) == mine
        self.rooms.setdefault(party.id, set()).add(one)

    @rule(one=who, other=who)
    def invite(self, one: str, other: str) -> None:
        blocked = frozenset((one, other)) in self.blocked
        self.poll(one)  # a refused invite makes no party on the board
        found, _ = self.both(
            lambda parties: parties.invite(one, other, blocked=blocked),
            lambda model: model.invite(one, other, self.now, blocked=blocked),
        )
        if not isinstance(found, Refused):
            assert not blocked and one != other and found.leader == one

    @rule(one=who, data=st.data())
    def accept(self, one: str, data: Any) -> None:
        invites = self.do(lambda parties: parties.invites_to(one))
        if not invites:
            return
        invite = data.draw(st.sampled_from(invites))
        found, _ = self.both(
            lambda parties: parties.accept(invite),
            lambda model: model.accept(self.as_named(invite), self.now),
        )
        if not isinstance(found, Refused):
            assert found.members[-1] == one
            self.rooms[found.id].add(one)

    @rule(one=who, data=st.data(), by_party=st.booleans())
    def decline(self, one: str, data: Any, by_party: bool) -> None:
        invites = self.do(lambda parties: parties.invites_to(one))
        if invites:
            invite = data.draw(st.sampled_from(invites))
            mine = self.as_named(invite)
            found, _ = self.both(
                lambda parties: parties.decline(
                    one, [invite.party_id if by_party else invite.sender]
                ),
                lambda model: model.decline(
                    one, [mine.party_id if by_party else mine.sender], self.now
                ),
            )
            assert found
            assert invite not in self.do(lambda parties: parties.invites_to(one))

    @rule(one=who, other=who)
    def withdraw(self, one: str, other: str) -> None:
        self.model.sweep(self.now)
        self.do(lambda parties: parties.withdraw(one, other))
        self.model.withdraw(one, other)
        left = self.do(lambda parties: parties.invites_to(other))
        assert all(invite.sender != one for invite in left)

    @rule(one=who)
    def leave(self, one: str) -> None:
        self.both(lambda parties: parties.leave(one), lambda model: model.leave(one, self.now))
        assert self.do(lambda parties: parties.of(one)) is None

    @rule(one=who, other=who)
    def kick(self, one: str, other: str) -> None:
        found, _ = self.both(
            lambda parties: parties.kick(one, other),
            lambda model: model.kick(one, other, self.now),
        )
        if isinstance(found, Refused):
            self.do(lambda parties: parties.hear(one))  # as the act does for what is refused
        else:
            assert self.do(lambda parties: parties.of(other)) is None

    @rule(one=who, other=who)
    def promote(self, one: str, other: str) -> None:
        self.poll(one)
        found, _ = self.both(
            lambda parties: parties.promote(one, other),
            lambda model: model.promote(one, other, self.now),
        )
        if not isinstance(found, Refused):
            party = self.do(lambda parties: parties.of(other))
            assert party is not None and party.leader == other

    @rule(one=who)
    def hear(self, one: str) -> None:
        self.both(lambda parties: parties.hear(one), lambda model: model.hear(one, self.now))

    @rule(one=who, other=who)
    def block(self, one: str, other: str) -> None:
        if one != other:
            self.blocked.add(frozenset((one, other)))
            self.both(
                lambda parties: parties.part(one, other), lambda model: model.part(one, other)
            )

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0, 121.0, 301.0, 4000.0]))
    def pass_time(self, seconds: float) -> None:
        self.live.now += seconds

    @invariant()
    def everyone_is_in_one_party_with_one_leader(self) -> None:
        seen: dict[str, str] = {}
        self.model.sweep(self.now)
        for one in PLAYERS:
            party, _ = self.both(
                lambda parties, one=one: parties.of(one),
                lambda model, one=one: model.of(one, self.now),
            )
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
            invites, _ = self.both(
                lambda parties, one=one: parties.invites_to(one),
                lambda model, one=one: model.invites_to(one, self.now),
            )
            assert len(invites) <= MAX_RECEIVED_INVITES
            for invite in invites:
                by_party[invite.party_id] = by_party.get(invite.party_id, 0) + 1
                party = self.do(lambda parties, invite=invite: parties.get(invite.party_id))
                assert party is not None and invite.sender in party.members
                assert self.now - invite.at < 300
                assert frozenset((invite.sender, one)) not in self.blocked
        assert all(count <= MAX_PARTY_INVITES for count in by_party.values())

    @invariant()
    def both_told_of_the_same_leavers(self) -> None:
        assert sorted(self.left) == sorted(self.model_left)

    @invariant()
    def the_two_indexes_of_invites_agree(self) -> None:
        def by_both(parties: Parties) -> tuple[set[Invite], set[Invite]]:
            stored, now = parties.stored, self.now
            received = {invite for one in PLAYERS for invite in stored.received(one)}
            pending = {invite for one in self.named for invite in stored.pending(one)}
            return tuple({i for i in kept if now - i.at < 300} for kept in (received, pending))

        by_recipient, by_party = self.do(by_both)
        assert by_recipient == by_party


PartyMachine.TestCase.settings = machine(60, 50)
TestPartyMachine = PartyMachine.TestCase
