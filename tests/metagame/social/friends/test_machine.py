"""Random player requests; the friends list is compared with a model after every step."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svcserver.kernel.refusals import Forbidden, Malformed
from svcserver.metagame.social.friends import rules
from svcserver.metagame.social.friends.rules import ACCEPTED, PENDING, RequestResult
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

    @rule(me=who, partner=who)
    def request(self, me: str, partner: str) -> None:
        result = self.run_rule(
            lambda friends: rules.request(friends, me, partner, self.at, may_ask=True)[0]
        )
        if me == partner:
            assert isinstance(result, Malformed)
        elif {(me, partner), (partner, me)} & self.blocks:
            assert isinstance(result, Forbidden)
        elif {(me, partner), (partner, me)} & set(self.accepted):
            assert result is RequestResult.ALREADY_FRIENDS
        elif (me, partner) in self.pending:
            assert result is RequestResult.ALREADY_REQUESTED
        elif (partner, me) in self.pending:
            assert result is RequestResult.ACCEPTED
            self.accepted[partner, me] = self.pending.pop((partner, me))
        else:
            assert result is RequestResult.REQUESTED
            self.pending[me, partner] = self.at

    @rule(me=who, partner=who)
    def unfriend(self, me: str, partner: str) -> None:
        ended = self.run_rule(lambda friends: rules.unfriend(friends, me, partner))
        assert (ended is not None) == self.forget(me, partner)

    def forget(self, me: str, partner: str) -> bool:
        existed = False
        for pairs in (self.pending, self.accepted):
            for pair in ((me, partner), (partner, me)):
                existed = pairs.pop(pair, None) is not None or existed
        return existed

    @rule(me=who, partner=who)
    def block(self, me: str, partner: str) -> None:
        result = self.run_rule(lambda friends: rules.block(friends, me, partner, self.at))
        if me == partner:
            assert isinstance(result, Malformed)
            return
        assert result is ((me, partner) not in self.blocks)
        self.blocks.add((me, partner))
        self.forget(me, partner)

    @rule(me=who, partner=who)
    def unblock(self, me: str, partner: str) -> None:
        result = self.run_rule(lambda friends: friends.unblock(me, partner))
        assert result is ((me, partner) in self.blocks)
        self.blocks.discard((me, partner))

    @invariant()
    def the_lists_are_the_models(self) -> None:
        self.ledger.run(lambda tx: self._compare(SqlFriends(tx)))

    def _compare(self, stored: SqlFriends) -> None:
        for me in PLAYERS:
            expected = {
                (partner, status, "OUTBOUND" if asker == me else "INBOUND", at)
                for status, pairs in ((PENDING, self.pending), (ACCEPTED, self.accepted))
                for (asker, recipient), at in pairs.items()
                for partner in ({asker, recipient} - {me} if me in (asker, recipient) else ())
            }
            entries = [
                (
                    rules.other_of(entry, me),
                    entry.status,
                    rules.direction(entry, me),
                    entry.created_at,
                )
                for entry in stored.friendships_of(me)
            ]
            assert set(entries) == expected and len(entries) == len(expected)
            assert [entry[3] for entry in entries] == sorted(entry[3] for entry in entries)
            assert stored.friends(me) == {entry[0] for entry in expected if entry[1] == ACCEPTED}
            assert set(stored.blocks(me)) == {b for a, b in self.blocks if a == me}
            apart = {b for a, b in self.blocks if a == me} | {a for a, b in self.blocks if b == me}
            assert stored.blocked(me, PLAYERS) == apart
            for partner in PLAYERS:
                assert stored.blocked_between(me, partner) is (partner in apart)


FriendMachine.TestCase.settings = machine(30, 35)
TestFriendMachine = FriendMachine.TestCase
