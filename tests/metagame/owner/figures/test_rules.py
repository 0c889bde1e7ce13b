"""Figures per minute, computed from samples and grouped by hour and day."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.figures.feature import show_spans
from svcserver.metagame.owner.figures.rules import (
    DAY_S,
    HOUR_S,
    KEPT_S,
    MINUTE_S,
    MOST_WAITING,
    FigureSpan,
    Gathering,
    Range,
    StoredSpan,
    start,
)
from svcserver.metagame.owner.health.rules import Counts, LoopFigures

AT = 1_790_000_000.0  # 02:13:20 of a day
MINUTE, HOUR, DAY = 1_789_999_980, 1_789_999_200, 1_789_948_800


def counted(*statuses: int) -> Counts:
    counts = Counts()
    for status in statuses:
        counts.note(status, 0.004)
    return counts


class GatheringTests(SynchronousTestCase):
    def test_samples_of_a_minute_are_one_span_of_minute_hour_and_day(self) -> None:
        gathering = Gathering()
        gathering.note(AT, counted(200, 404), LoopFigures(20.0, 21.5, 30.0), 80.0, 2)
        gathering.note(AT + 5, counted(500), LoopFigures(20.0, 20.5, 44.0), None, 5)
        gathered = gathering.taken()
        self.assertEqual(
            [(stored.step_s, stored.at) for stored in gathered],
            [(MINUTE_S, MINUTE), (HOUR_S, HOUR), (DAY_S, DAY)],
        )
        span = gathered[0].span
        self.assertEqual((span.counts.completed, span.counts.client_errors), (3, 1))
        self.assertEqual((span.samples, span.players_sum, span.players_most), (2, 7, 5))
        self.assertEqual((span.loop_p95_ms, span.loop_longest_ms, span.rss_mb), (21.5, 44.0, 80.0))
        self.assertEqual(gathering.taken(), [])

    def test_only_the_newest_minutes_wait_for_a_slow_database(self) -> None:
        gathering = Gathering()
        for minute in range(MOST_WAITING + 3):
            gathering.note(AT + 60 * minute, counted(200), None, None, 0)
        minutes = [stored.at for stored in gathering.taken() if stored.step_s == MINUTE_S]
        self.assertEqual(len(minutes), MOST_WAITING)
        self.assertEqual(minutes[0], MINUTE + 3 * 60)

    def test_every_range_is_kept_for_longer_than_it_is_shown(self) -> None:
        for stored in Range:
            self.assertGreaterEqual(KEPT_S[stored.step_s], stored.seconds + stored.step_s)
        spans = {step: seconds // step for step, seconds in KEPT_S.items()}
        self.assertEqual(spans, {MINUTE_S: 1_500, HOUR_S: 192, DAY_S: 366})

    def test_the_longest_range_is_eight_weeks(self) -> None:
        self.assertEqual(max(Range, key=lambda stored: stored.seconds), Range.EIGHT_WEEKS)
        self.assertEqual(Range.EIGHT_WEEKS.seconds, 8 * 7 * DAY_S)

    def test_unknown_memory_counts_as_zero(self) -> None:
        gathering = Gathering()
        gathering.note(AT, counted(200), None, None, 0)
        self.assertEqual([stored.span.rss_mb for stored in gathering.taken()], [0.0, 0.0, 0.0])

    def test_spans_begin_at_whole_minutes_hours_and_days(self) -> None:
        for step, began in ((MINUTE_S, MINUTE), (HOUR_S, HOUR), (DAY_S, DAY)):
            self.assertEqual((start(AT, step), start(began, step)), (began, began))


class ShownTests(SynchronousTestCase):
    def test_the_rate_of_a_running_span_uses_its_elapsed_time(self) -> None:
        span = FigureSpan(counted(*[200] * 60), 12, 30, 4)
        for now, rate in ((AT + 600, 1.0), (MINUTE + 30.0, 2.0), (MINUTE - 5.0, 60.0)):
            shown = show_spans(Range.HOUR, [StoredSpan(MINUTE_S, MINUTE, span)], now)
            self.assertEqual(shown["requestsPerSecond"], [rate])

    def test_a_rate_has_three_decimals_and_one_sample_is_its_own_average(self) -> None:
        third = FigureSpan(counted(*[200] * 20), 1, 3, 3)
        shown = show_spans(Range.HOUR, [StoredSpan(MINUTE_S, MINUTE, third)], AT + 600)
        self.assertEqual((shown["requestsPerSecond"], shown["players"]), ([0.333], [3.0]))

    def test_each_figure_is_a_list_of_one_length(self) -> None:
        span = FigureSpan(counted(200, 500), 2, 3, 2, 21.0, 40.0, 90.5)
        shown = show_spans(
            Range.WEEK,
            [StoredSpan(HOUR_S, HOUR, span), StoredSpan(HOUR_S, HOUR + HOUR_S, FigureSpan())],
            AT,
        )
        self.assertEqual((shown["range"], shown["stepSeconds"]), ("week", HOUR_S))
        self.assertEqual(shown["since"], int(AT) - 7 * DAY_S)
        self.assertEqual(shown["at"], [HOUR, HOUR + HOUR_S])
        self.assertEqual((shown["serverErrors"], shown["players"]), ([1, 0], [1.5, 0.0]))
        self.assertEqual((shown["rssMB"], shown["loopP95Ms"]), ([90.5, None], [21.0, None]))
        for share in ("P50", "P95"):
            self.assertEqual(shown[f"latency{share}UpperMs"], [5, None])
        lists = [value for value in shown.values() if isinstance(value, list)]
        self.assertEqual({len(values) for values in lists}, {2})
