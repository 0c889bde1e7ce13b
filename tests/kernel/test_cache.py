"""A bounded cache keeps the most recently used entries and never exceeds its limit."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.cache import BoundedCache
from svcserver.kernel.rates import Rate, TokenBuckets

MOST = 8
USES = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=80)


class Weighed(BoundedCache[int, str]):
    def weight(self, key: int) -> int:
        return key


class CacheTests(SynchronousTestCase):
    @given(USES)
    def test_recently_used_entries_stay_and_the_size_is_bounded(
        self, uses: list[tuple[int, bool]]
    ) -> None:
        cache: BoundedCache[int, str] = BoundedCache(MOST)
        used: list[int] = []
        values: dict[int, str] = {}
        for at, (key, writes) in enumerate(uses):
            result = cache.get(key)
            if result is not None:
                self.assertEqual(result, values[key])
            if writes:
                values[key] = f"{key} {at}"
                cache.put(key, values[key])
            if writes or result is not None:
                used = [*[name for name in used if name != key], key]
            for used_key in used[-MOST // 2 :]:
                self.assertIn(used_key, {**cache._young, **cache._old})
            self.assertLessEqual(len(cache), MOST)

    def test_the_weight_of_entries_is_bounded(self) -> None:
        cache = Weighed(20)
        for key in (4, 5, 3, 9, 2, 6):
            cache.put(key, "x")
            self.assertLessEqual(sum(cache._young) + sum(cache._old), 20)
        self.assertEqual([cache.get(key) for key in (2, 6, 4)], ["x", "x", None])

    def test_writing_the_same_key_again_takes_no_room(self) -> None:
        cache = Weighed(20)
        for number in range(9):
            cache.put(4, str(number))
        cache.put(5, "x")
        self.assertEqual((cache.get(4), len(cache)), ("8", 2))


class BucketTests(SynchronousTestCase):
    def test_a_flood_of_keys_takes_bounded_memory_and_keeps_used_keys(self) -> None:
        buckets = TokenBuckets(Rate(1, 1), max_keys=10)
        buckets.take("busy", 0.0)
        for number in range(200):
            buckets.take(str(number), 0.0)
            if number % 4 == 0:
                self.assertGreater(buckets.take("busy", 0.0), 0.0)
        self.assertLessEqual(len(buckets), 10)
