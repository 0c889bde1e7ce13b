"""Periodically repeated work."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Unavailable


class EveryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.at: list[float] = []

    def note(self) -> None:
        self.at.append(self.clock.seconds())

    def test_work_runs_every_period_between_start_and_stop(self) -> None:
        every = Every(self.clock, 2.0, self.note, "noting")
        self.clock.advance(5)
        every.startService()
        self.clock.pump([1.0] * 4)
        every.stopService()
        self.clock.advance(5)
        self.assertEqual(self.at, [7.0, 9.0])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_with_at_once_the_work_runs_at_every_start(self) -> None:
        every = Every(self.clock, 2.0, self.note, "noting", at_once=True)
        for _ in range(2):
            every.startService()
            every.stopService()
            every.stopService()
        self.assertEqual(self.at, [0.0, 0.0])

    def test_with_at_end_the_work_runs_at_the_stop_which_waits_for_it(self) -> None:
        waits: Deferred[None] = Deferred()

        def work() -> Deferred[None]:
            self.note()
            return waits

        every = Every(self.clock, 2.0, work, "work", at_end=True)
        every.startService()
        stopped = every.stopService()
        assert stopped is not None
        self.assertEqual((self.at, self.clock.getDelayedCalls()), ([0.0], []))
        self.assertNoResult(stopped)
        # the error is logged, and the stop continues
        waits.errback(Unavailable("the disk is full"))
        self.successResultOf(stopped)
        self.assertIsNone(every.stopService())

    def test_a_failed_round_is_logged_once_a_minute_and_the_next_runs(self) -> None:
        def work() -> Deferred[None]:
            self.note()
            if len(self.at) % 2:
                raise ZeroDivisionError
            return fail(OSError())

        every = Every(self.clock, 1.0, work, "work")
        every.startService()
        self.clock.pump([1.0] * 60)
        self.assertEqual(len(self.at), 60)
        self.assertEqual(len(self.flushLoggedErrors()), 1)
        self.clock.pump([1.0] * 60)
        self.assertEqual(len(self.flushLoggedErrors()), 1)
        every.stopService()

    def test_an_unavailable_part_is_logged_without_a_traceback(self) -> None:
        def work() -> Deferred[None]:
            return fail(Unavailable("the disk is full"))

        every = Every(self.clock, 1.0, work, "tidying up")
        every.startService()
        with capturedLogs() as events:
            self.clock.pump([1.0] * 60)
        every.stopService()
        self.assertEqual(
            [formatEvent(event) for event in events],
            ["tidying up failed: the disk is full; next attempt within 1 s"],
        )
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_the_next_round_waits_for_a_long_round_to_end(self) -> None:
        waiting: list[Deferred[None]] = []

        def work() -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        every = Every(self.clock, 1.0, work, "work")
        every.startService()
        self.clock.pump([1.0] * 5)
        self.assertEqual(len(waiting), 1)
        waiting[0].callback(None)
        self.clock.advance(1)
        self.assertEqual(len(waiting), 2)
        every.stopService()

    def test_rounds_that_come_too_late_are_left_out_and_the_beat_is_kept(self) -> None:
        every = Every(self.clock, 2.0, self.note, "noting")
        every.startService()
        self.clock.advance(7)
        self.clock.advance(1)
        every.stopService()
        self.assertEqual(self.at, [7.0, 8.0])

    def test_a_new_start_waits_for_the_round_from_before_the_stop(self) -> None:
        waiting: list[Deferred[None]] = []

        def work() -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        every = Every(self.clock, 1.0, work, "work", at_once=True)
        every.startService()
        every.stopService()
        every.startService()
        self.assertEqual(len(waiting), 1)
        waiting[0].callback(None)
        self.clock.advance(1)
        self.assertEqual(len(waiting), 2)
        every.stopService()
        waiting[1].callback(None)
        self.assertEqual(self.clock.getDelayedCalls(), [])
