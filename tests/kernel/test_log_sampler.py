"""In a flood of log lines, a sample of the lines is written; the other lines are counted."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.throttle import ALL, EACH, LogSampler


class SampleTests(SynchronousTestCase):
    def test_one_source_has_its_share_and_leaves_others_theirs(self) -> None:
        sample = LogSampler()
        self.assertEqual(sum(sample.keeps("a", 0.0) for _ in range(1_000)), EACH.burst)
        self.assertTrue(sample.keeps("b", 0.0))
        self.assertEqual(sample.take_omitted(), 1_000 - EACH.burst)
        self.assertEqual(sample.take_omitted(), 0)
        self.assertTrue(sample.keeps("a", 60 / EACH.per_minute))

    def test_many_sources_have_a_bound_together(self) -> None:
        sample = LogSampler()
        stored = sum(sample.keeps(str(number), 0.0) for number in range(2_000))
        self.assertEqual(stored, ALL.burst)

    def test_a_flood_writes_150_mb_a_day_and_one_source_a_tenth(self) -> None:
        sample = LogSampler()
        self.assertEqual(sum(sample.keeps("a", 0.0) for _ in range(100)), 40)
        self.assertEqual(sum(sample.keeps("a", 60.0) for _ in range(100)), 40)
        whole = LogSampler()
        self.assertEqual(sum(whole.keeps(str(number), 0.0) for number in range(999)), 400)
        again = sum(whole.keeps(str(number), 30.0) for number in range(1_000, 1_999))
        self.assertEqual(again, 300)
