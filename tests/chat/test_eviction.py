"""Who gives way when the chat is full, and that it takes no look at everybody to know."""

from __future__ import annotations

import random

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.eviction import ByNetwork, Crowd

NETWORKS = ("a", "b", "c", "d")


@define(eq=False)
class Made:
    """A connection; ``looks`` counts who asked for its network."""

    of: str
    number: int = 0
    looks: int = 0

    @property
    def network(self) -> str:
        self.looks += 1
        return self.of


class ByNetworkTests(SynchronousTestCase):
    def test_as_a_plain_list_would_have_it(self) -> None:
        rng = random.Random(5)
        held: ByNetwork[Made] = ByNetwork()
        plain: list[Made] = []
        for number in range(4_000):
            if plain and rng.random() < 0.45:
                held.remove(gone := plain.pop(rng.randrange(len(plain))))
                held.remove(gone)
            else:
                plain.append(Made(rng.choice(NETWORKS), number))
                held.add(plain[-1])
                held.add(plain[-1])
            counts = {one: sum(it.of == one for it in plain) for one in NETWORKS}
            self.assertEqual({one: held.count(one) for one in NETWORKS}, counts)
            self.assertEqual(bool(held), bool(plain))
            for but in (None, "a"):
                found = held.of_the_largest(but)
                others = [count for one, count in counts.items() if one != but]
                if not any(others):
                    self.assertIsNone(found)
                    continue
                assert found is not None
                self.assertNotEqual(found.of, but)
                self.assertEqual(counts[found.of], max(others))
                self.assertIs(found, next(it for it in plain if it.of == found.of))

    def test_all_alone_the_oldest_is_first(self) -> None:
        held: ByNetwork[Made] = ByNetwork()
        made = [Made(str(number)) for number in range(9)]
        for one in made:
            held.add(one)
        self.assertIs(held.of_the_largest(), made[0])


class CrowdTests(SynchronousTestCase):
    def test_one_more_in_a_full_chat_looks_at_few(self) -> None:
        crowd: Crowd[Made] = Crowd()
        made = [Made(str(number % 500)) for number in range(10_000)]
        for one in made:
            crowd.waiting.add(one)
            crowd.bound(one)
        before = sum(one.looks for one in made)
        for number in range(100):
            self.assertIsNotNone(crowd.gives_way(f"new {number}"))
        self.assertLess(sum(one.looks for one in made) - before, 1_000)

    def test_players_are_never_closed_while_somebody_logs_in(self) -> None:
        crowd: Crowd[Made] = Crowd()
        for _ in range(3):
            crowd.players.add(Made("a"))
        late = Made("b")
        crowd.waiting.add(late)
        self.assertIs(crowd.gives_way("c"), late)
        self.assertIsNone(crowd.gives_way("b"))
        crowd.left(late)
        found = crowd.gives_way("b")
        self.assertEqual(found and found.of, "a")
