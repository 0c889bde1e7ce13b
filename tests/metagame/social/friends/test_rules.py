"""The error codes of a full friends list. Spec: 2 §7, 1 §8."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.ids import new_account_id
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.social.friends import rules
from svcserver.metagame.social.friends.rules import ACCEPTED, PENDING, Friendship, Load

ANN, BOB = new_account_id(), new_account_id()


class FakeFriends:
    """Two players; ``loads`` holds the number of entries of each player."""

    def __init__(self, ann: Load, bob: Load, between: Friendship | None = None) -> None:
        self.loads = {ANN: ann, BOB: bob}
        self.friendship = between
        self.blocked: list[str] = []
        self.done: list[str] = []

    def exists(self, account_id: str) -> bool:
        return account_id in self.loads

    def blocked_between(self, first: str, second: str) -> bool:
        return False

    def between(self, first: str, second: str) -> Friendship | None:
        return self.friendship

    def load(self, account_id: str) -> Load:
        return self.loads[account_id]

    def add(self, friendship: Friendship) -> None:
        self.done.append("add")

    def accept(self, friendship: Friendship, at: int) -> None:
        self.done.append("accept")

    def remove(self, first: str, second: str) -> bool:
        self.done.append("remove")
        return True

    def blocks(self, blocker: str) -> list[str]:
        return self.blocked

    def block(self, blocker: str, blocked: str, at: int) -> None:
        self.done.append("block")

    def unblock(self, blocker: str, blocked: str) -> bool:
        return False


class LimitTests(SynchronousTestCase):
    def code(self, work: Any, *sent: Any, **more: Any) -> tuple[int, str]:
        with self.assertRaises(Refusal) as caught:
            work(*sent, **more)
        return caught.exception.status, caught.exception.code

    def test_a_full_list_on_either_side_takes_no_request(self) -> None:
        for ann, bob in ((200, 0), (0, 200)):
            friends = FakeFriends(Load(ann, 0, 0), Load(bob, 0, 0))
            code = self.code(rules.request, friends, ANN, BOB, 1, may_ask=True)
            self.assertEqual((code, friends.done), ((409, "limit"), []))
        friends = FakeFriends(Load(199, 0, 49), Load(199, 0, 0))
        rules.request(friends, ANN, BOB, 1, may_ask=True)
        self.assertEqual(friends.done, ["add"])

    def test_the_limit_of_open_requests_comes_before_the_rate(self) -> None:
        friends = FakeFriends(Load(50, 0, 50), Load(0, 0, 0))
        code = self.code(rules.request, friends, ANN, BOB, 1, may_ask=False)
        self.assertEqual(code, (409, "pending_limit"))
        friends = FakeFriends(Load(50, 0, 49), Load(0, 0, 0))
        self.assertEqual(
            self.code(rules.request, friends, ANN, BOB, 1, may_ask=False), (409, "rate")
        )

    def test_accepting_requires_only_room_in_both_lists(self) -> None:
        request = Friendship(BOB, ANN, PENDING, 1)
        for ann, bob in ((200, 0), (0, 200)):
            friends = FakeFriends(Load(ann, ann, 0), Load(bob, bob, 0), request)
            code = self.code(rules.request, friends, ANN, BOB, 2, may_ask=False)
            self.assertEqual((code, friends.done), ((409, "limit"), []))
        friends = FakeFriends(Load(300, 199, 50), Load(300, 199, 50), request)
        self.assertEqual(rules.request(friends, ANN, BOB, 2, may_ask=False)[0], "accepted")
        friends = FakeFriends(
            Load(200, 200, 0), Load(200, 200, 0), Friendship(BOB, ANN, ACCEPTED, 1)
        )
        said_so = rules.request(friends, ANN, BOB, 2, may_ask=False)[0]
        self.assertEqual((said_so, friends.done), ("already_friends", []))

    def test_a_block_beyond_two_hundred_is_409(self) -> None:
        friends = FakeFriends(Load(0, 0, 0), Load(0, 0, 0))
        friends.blocked = [new_account_id() for _ in range(200)]
        self.assertEqual(self.code(rules.block, friends, ANN, BOB, 1), (409, "limit"))
        friends.blocked[0] = BOB
        self.assertIs(rules.block(friends, ANN, BOB, 1), False)
        friends.blocked = friends.blocked[1:]
        self.assertIs(rules.block(friends, ANN, BOB, 1), True)
        self.assertEqual(friends.done, ["block", "remove"])

    def test_an_unknown_account_is_404_and_blocking_oneself_is_400(self) -> None:
        friends = FakeFriends(Load(0, 0, 0), Load(0, 0, 0))
        self.assertEqual(self.code(rules.named, "a b"), (404, "not_found"))
        self.assertEqual(self.code(rules.block, friends, ANN, ANN, 1), (400, "self"))
        stranger = new_account_id()
        self.assertEqual(self.code(rules.block, friends, ANN, stranger, 1), (404, "not_found"))
