"""Minutes are gathered from samples, and belong to an hour and a day."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.figures.feature import show
from svcserver.metagame.owner.figures.rules import (
    DAY_S,
    HOUR_S,
    KEPT_S,
    MINUTE_S,
    MOST_WAITING,
    Gathering,
    Kept,
    Range,
    Span,
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
        found = gathering.taken()
        self.assertEqual(
            [(one.step_s, one.at) for one in found],
            [(MINUTE_S, MINUTE), (HOUR_S, HOUR), (DAY_S, DAY)],
        )
        span = found[0].span
        self.assertEqual((span.counts.completed, span.counts.client_errors), (3, 1))
        self.assertEqual((span.samples, span.players_sum, span.players_most), (2, 7, 5))
        self.assertEqual((span.loop_p95_ms, span.loop_longest_ms, span.rss_mb), (21.5, 44.0, 80.0))
        self.assertEqual(gathering.taken(), [])

    def test_while_the_database_is_slow_only_the_newest_minutes_wait(self) -> None:
        gathering = Gathering()
        for minute in range(MOST_WAITING + 3):
            gathering.note(AT + 60 * minute, counted(200), None, None, 0)
        minutes = [one.at for one in gathering.taken() if one.step_s == MINUTE_S]
        self.assertEqual(len(minutes), MOST_WAITING)
        self.assertEqual(minutes[0], MINUTE + 3 * 60)

    def test_every_range_is_kept_for_longer_than_it_is_shown(self) -> None:
        for one in Range:
            self.assertGreaterEqual(KEPT_S[one.step_s], one.seconds + one.step_s)
        spans = {step: kept // step for step, kept in KEPT_S.items()}
        self.assertEqual(spans, {MINUTE_S: 1_500, HOUR_S: 192, DAY_S: 366})

    def test_the_longest_range_is_eight_weeks(self) -> None:
        self.assertEqual(max(Range, key=lambda one: one.seconds), Range.EIGHT_WEEKS)
        self.assertEqual(Range.EIGHT_WEEKS.seconds, 8 * 7 * DAY_S)

    def test_memory_that_the_system_does_not_tell_is_none(self) -> None:
        gathering = Gathering()
        gathering.note(AT, counted(200), None, None, 0)
        self.assertEqual([one.span.rss_mb for one in gathering.taken()], [0.0, 0.0, 0.0])

    def test_spans_begin_at_whole_minutes_hours_and_days(self) -> None:
        for step, began in ((MINUTE_S, MINUTE), (HOUR_S, HOUR), (DAY_S, DAY)):
            self.assertEqual((start(AT, step), start(began, step)), (began, began))


class ShownTests(SynchronousTestCase):
    def test_a_rate_is_that_of_the_time_that_is_over(self) -> None:
        span = Span(counted(*[200] * 60), 12, 30, 4)
        for now, rate in ((AT + 600, 1.0), (MINUTE + 30.0, 2.0), (MINUTE - 5.0, 60.0)):
            shown = show(Range.HOUR, [Kept(MINUTE_S, MINUTE, span)], now)
            self.assertEqual(shown["requestsPerSecond"], [rate])

    def test_a_rate_has_three_decimals_and_one_sample_is_its_own_average(self) -> None:
        third = Span(counted(*[200] * 20), 1, 3, 3)
        shown = show(Range.HOUR, [Kept(MINUTE_S, MINUTE, third)], AT + 600)
        self.assertEqual((shown["requestsPerSecond"], shown["players"]), ([0.333], [3.0]))

    def test_each_figure_is_a_list_of_one_length(self) -> None:
        span = Span(counted(200, 500), 2, 3, 2, 21.0, 40.0, 90.5)
        shown = show(
            Range.WEEK, [Kept(HOUR_S, HOUR, span), Kept(HOUR_S, HOUR + HOUR_S, Span())], AT
        )
        self.assertEqual((shown["range"], shown["stepSeconds"]), ("week", HOUR_S))
        self.assertEqual(shown["since"], int(AT) - 7 * DAY_S)
        self.assertEqual(shown["at"], [HOUR, HOUR + HOUR_S])
        self.assertEqual((shown["serverErrors"], shown["players"]), ([1, 0], [1.5, 0.0]))
        self.assertEqual((shown["rssMB"], shown["loopP95Ms"]), ([90.5, None], [21.0, None]))
        for share in ("P50", "P95"):
            self.assertEqual(shown[f"latency{share}UpperMs"], [5, None])
        lists = [value for value in shown.values() if isinstance(value, list)]
        self.assertEqual({len(one) for one in lists}, {2})
