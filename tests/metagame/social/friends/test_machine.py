"""Players act at random; the friends list is compared with a model after every step."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svcserver.kernel.refusals import Forbidden, Malformed
from svcserver.metagame.social.friends import rules
from svcserver.metagame.social.friends.rules import ACCEPTED, PENDING, Result
from svcserver.metagame.social.friends.store import SqlFriends
from tests.support.effort import machine
from tests.support.ledger import InstantLedger
from tests.support.people import add_accounts
from tests.support.proves import proves

PLAYERS = [f"p{number}" for number in range(5)]
who = st.sampled_from(PLAYERS)


@proves("state: Friend request")
class FriendMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = InstantLedger()
        self.at = 1
        self.ledger.run(lambda tx: add_accounts(tx, PLAYERS))
        self.pending: dict[tuple[str, str], int] = {}  # asker, asked
        self.accepted: dict[tuple[str, str], int] = {}  # asker, asked
        self.blocks: set[tuple[str, str]] = set()

    def teardown(self) -> None:
        self.ledger.free()

    def run_rule(self, work: Any) -> Any:
        self.at += 1
        try:
            return self.ledger.run(lambda tx: work(SqlFriends(tx)))
        except (Forbidden, Malformed) as why:
            return why

    @rule(one=who, other=who)
    def request(self, one: str, other: str) -> None:
        said = self.run_rule(lambda kept: rules.request(kept, one, other, self.at, may_ask=True)[0])
        if one == other:
            assert isinstance(said, Malformed)
        elif {(one, other), (other, one)} & self.blocks:
            assert isinstance(said, Forbidden)
        elif {(one, other), (other, one)} & set(self.accepted):
            assert said is Result.ALREADY_FRIENDS
        elif (one, other) in self.pending:
            assert said is Result.ALREADY_REQUESTED
        elif (other, one) in self.pending:
            assert said is Result.ACCEPTED
            self.accepted[other, one] = self.pending.pop((other, one))
        else:
            assert said is Result.REQUESTED
            self.pending[one, other] = self.at

    @rule(one=who, other=who)
    def unfriend(self, one: str, other: str) -> None:
        ended = self.run_rule(lambda kept: rules.unfriend(kept, one, other))
        assert (ended is not None) == self.forget(one, other)

    def forget(self, one: str, other: str) -> bool:
        found = False
        for kept in (self.pending, self.accepted):
            for pair in ((one, other), (other, one)):
                found = kept.pop(pair, None) is not None or found
        return found

    @rule(one=who, other=who)
    def block(self, one: str, other: str) -> None:
        said = self.run_rule(lambda kept: rules.block(kept, one, other, self.at))
        if one == other:
            assert isinstance(said, Malformed)
            return
        assert said is ((one, other) not in self.blocks)
        self.blocks.add((one, other))
        self.forget(one, other)

    @rule(one=who, other=who)
    def unblock(self, one: str, other: str) -> None:
        said = self.run_rule(lambda kept: kept.unblock(one, other))
        assert said is ((one, other) in self.blocks)
        self.blocks.discard((one, other))

    @invariant()
    def the_lists_are_the_models(self) -> None:
        self.ledger.run(lambda tx: self._compare(SqlFriends(tx)))

    def _compare(self, stored: SqlFriends) -> None:
        for me in PLAYERS:
            expected = {
                (other, status, "OUTBOUND" if asker == me else "INBOUND", at)
                for status, kept in ((PENDING, self.pending), (ACCEPTED, self.accepted))
                for (asker, asked), at in kept.items()
                for other in ({asker, asked} - {me} if me in (asker, asked) else ())
            }
            found = [
                (rules.other_of(one, me), one.status, rules.direction(one, me), one.created_at)
                for one in stored.of(me)
            ]
            assert set(found) == expected and len(found) == len(expected)
            assert [one[3] for one in found] == sorted(one[3] for one in found)
            assert stored.friends(me) == {one[0] for one in expected if one[1] == ACCEPTED}
            assert set(stored.blocks(me)) == {b for a, b in self.blocks if a == me}
            apart = {b for a, b in self.blocks if a == me} | {a for a, b in self.blocks if b == me}
            assert stored.blocked(me, PLAYERS) == apart
            for other in PLAYERS:
                assert stored.blocked_between(me, other) is (other in apart)


FriendMachine.TestCase.settings = machine(30, 35)
TestFriendMachine = FriendMachine.TestCase
