"""The counters on METRICS_PORT that an owner needs during an attack."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.counters import MEANINGS, MOST_REASONS, Counted, Counters


class CountersTests(SynchronousTestCase):
    def test_each_kind_is_counted_by_reason(self) -> None:
        counters = Counters()
        counters.add(Counted.REFUSALS, "host")
        counters.add(Counted.REFUSALS, "host", 2)
        counters.add(Counted.REFUSALS, "origin")
        self.assertEqual(counters.by_reason(Counted.REFUSALS), {"host": 3, "origin": 1})
        self.assertEqual(counters.total(Counted.REFUSALS), 4)
        self.assertEqual(counters.total(Counted.THROTTLED), 0)

    def test_the_reasons_are_bounded(self) -> None:
        counters = Counters()
        for number in range(3 * MOST_REASONS):
            counters.add(Counted.FAILED_LOGINS, f"reason {number}")
        counts = counters.by_reason(Counted.FAILED_LOGINS)
        self.assertEqual(len(counts), MOST_REASONS + 1)
        self.assertEqual(counts["other"], 2 * MOST_REASONS)
        self.assertEqual(counters.total(Counted.FAILED_LOGINS), 3 * MOST_REASONS)

    def test_every_kind_of_count_has_a_description(self) -> None:
        self.assertEqual(set(MEANINGS), set(Counted))

    def test_a_count_kept_elsewhere_is_added_to_the_total(self) -> None:
        counters, stored = Counters(), [3]
        counters.watch(Counted.DROPPED_LOG_LINES, "unread", lambda: stored[0])
        counters.add(Counted.DROPPED_LOG_LINES, "sampled")
        result = counters.by_reason(Counted.DROPPED_LOG_LINES)
        self.assertEqual(result, {"sampled": 1, "unread": 3})
        self.assertEqual(counters.total(Counted.DROPPED_LOG_LINES), 4)
