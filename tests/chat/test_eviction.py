"""The choice of the connection to close, without a loop over all connections."""

import random

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.eviction import ByNetwork, Crowd

NETWORKS = ("a", "b", "c", "d")


@define(eq=False)
class Made:
    """A fake connection; ``looks`` counts how often its network address was read."""

    of: str
    number: int = 0
    looks: int = 0

    @property
    def network(self) -> str:
        self.looks += 1
        return self.of


class ByNetworkTests(SynchronousTestCase):
    def test_connections_by_network_match_a_plain_list(self) -> None:
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
            counts = {item: sum(it.of == item for it in plain) for item in NETWORKS}
            self.assertEqual({item: held.count(item) for item in NETWORKS}, counts)
            self.assertEqual(bool(held), bool(plain))
            for but in (None, "a"):
                result = held.oldest_of_largest(but)
                others = [count for item, count in counts.items() if item != but]
                if not any(others):
                    self.assertIsNone(result)
                    continue
                assert result is not None
                self.assertNotEqual(result.of, but)
                self.assertEqual(counts[result.of], max(others))
                self.assertIs(result, next(it for it in plain if it.of == result.of))

    def test_the_oldest_is_first_if_each_network_has_one_connection(self) -> None:
        held: ByNetwork[Made] = ByNetwork()
        made = [Made(str(number)) for number in range(9)]
        for item in made:
            held.add(item)
        self.assertIs(held.oldest_of_largest(), made[0])


class CrowdTests(SynchronousTestCase):
    def test_eviction_in_a_full_chat_checks_only_a_few_sessions(self) -> None:
        crowd: Crowd[Made] = Crowd()
        made = [Made(str(number % 500)) for number in range(10_000)]
        for item in made:
            crowd.waiting.add(item)
            crowd.bound(item)
        before = sum(item.looks for item in made)
        for number in range(100):
            self.assertIsNotNone(crowd.choose_to_close(f"new {number}"))
        self.assertLess(sum(item.looks for item in made) - before, 1_000)

    def test_players_are_never_closed_while_somebody_logs_in(self) -> None:
        crowd: Crowd[Made] = Crowd()
        for _ in range(3):
            crowd.players.add(Made("a"))
        late = Made("b")
        crowd.waiting.add(late)
        self.assertIs(crowd.choose_to_close("c"), late)
        self.assertIsNone(crowd.choose_to_close("b"))
        crowd.left(late)
        result = crowd.choose_to_close("b")
        self.assertEqual(result and result.of, "a")
