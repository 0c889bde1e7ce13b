"""Figures are stored every minute, summed over all processes, and read for a time range."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.transaction import transact
from svcserver.kernel.refusals import Unavailable
from svcserver.metagame.owner.figures.feature import FIGURES, Figures, SqlFigures, figures_watch
from svcserver.metagame.owner.figures.rules import DAY_S, HOUR_S, KEPT_S, MINUTE_S, Range
from svcserver.metagame.owner.health.rules import LoopFigures
from tests.metagame.owner.figures.test_rules import AT, DAY, HOUR, MINUTE, counted
from tests.support.game import Game
from tests.support.isolates import isolates
from tests.support.ledger import InstantLedger
from tests.support.proves import proves
from tests.support.real_ledger import TwoLedgers


class FiguresTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.ledger, self.clock = InstantLedger(), Clock()
        self.addCleanup(self.ledger.free)
        self.clock.advance(AT)
        self.workers = [Figures(self.ledger, self.clock.seconds) for _ in range(2)]

    def written(self, *workers: int, statuses: tuple[int, ...] = (200,)) -> None:
        for minute in workers:
            gathering, at = self.workers[minute].gathering, self.clock.seconds()
            gathering.note(at, counted(*statuses), LoopFigures(20.0, 21.0 + minute, 30.0), 80.0, 3)
            self.successResultOf(self.workers[minute].write())

    def read(self, scope: Range) -> list[Any]:
        return self.successResultOf(Deferred.fromCoroutine(self.workers[0].read_spans(scope)))

    @proves("GET DashboardFigures")
    def test_counts_of_several_processes_are_summed(self) -> None:
        self.written(0, 1, 0, statuses=(200, 404))
        [minute] = self.read(Range.HOUR)
        self.assertEqual((minute.step_s, minute.at), (MINUTE_S, MINUTE))
        self.assertEqual((minute.span.counts.completed, minute.span.counts.client_errors), (6, 3))
        self.assertEqual(sum(minute.span.counts.latencies), 6)
        self.assertEqual((minute.span.samples, minute.span.players_sum), (3, 9))
        self.assertEqual((minute.span.players_most, minute.span.loop_p95_ms), (3, 22.0))

    @proves("GET DashboardFigures")
    def test_minutes_are_rolled_up_into_hours_and_days(self) -> None:
        for _ in range(120):
            self.written(0)
            self.clock.advance(60)
        self.assertEqual(len(self.read(Range.HOUR)), 60)
        self.assertEqual(len(self.read(Range.DAY)), 120)
        hours = self.read(Range.WEEK)
        self.assertEqual(
            [(minute.at, minute.span.counts.completed) for minute in hours[:2]],
            [(HOUR, 47), (HOUR + HOUR_S, 60)],
        )
        [day] = self.read(Range.EIGHT_WEEKS)
        self.assertEqual((day.at, day.span.counts.completed, day.span.samples), (DAY, 120, 120))

    def test_rows_are_bounded_and_a_wrong_clock_leaves_none(self) -> None:
        def rows(tx: Any) -> dict[int, int]:
            counted = select(FIGURES.c.step_s, func.count()).group_by(FIGURES.c.step_s)
            return {step: count for step, count in tx.execute(counted)}

        self.clock.advance(400 * DAY_S)  # the clock was wrong for a while
        self.written(0)
        self.clock.rightNow = AT
        for _ in range(3 * 26):
            self.written(0)
            self.clock.advance(20 * 60)
        for _ in range(400):
            self.written(0)
            self.clock.advance(DAY_S)
        counts = self.ledger.run(rows)
        for step, seconds in KEPT_S.items():
            self.assertLessEqual(counts[step], seconds // step + 1)
        self.assertEqual(counts[DAY_S], 366)

    def test_without_counts_nothing_is_written(self) -> None:
        self.ledger.free()
        self.successResultOf(self.workers[0].write())

    def test_a_minute_that_could_not_be_written_is_dropped(self) -> None:
        ledger, writes = self.ledger, []

        class Away:
            def write(self, *_: Any) -> Any:
                writes.append(1)
                return fail(Unavailable("away"))

        mine = self.workers[0]
        mine.ledger = Away()  # type: ignore[assignment]
        watch = figures_watch(mine, self.clock)
        watch.startService()
        self.addCleanup(watch.stopService)
        mine.gathering.note(AT, counted(200), None, None, 0)
        self.clock.advance(60)
        mine.ledger = ledger
        mine.gathering.note(AT + 61, counted(200, 200), None, None, 0)
        self.clock.advance(60)
        self.assertEqual(writes, [1])
        self.assertEqual([minute.span.counts.completed for minute in self.read(Range.HOUR)], [2])


class RouteTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, BACKEND_HEALTH="1")
        self.admin = self.game.player("Owner_1", admin=True)

    def ask(self, query: str = "", **how: Any) -> Any:
        return self.game.browse(
            "GET", f"/svc/api/DashboardFigures{query}", **{"key": self.admin.key, **how}
        )

    @proves("GET DashboardFigures")
    def test_samples_are_returned_over_a_range(self) -> None:
        desk, now = self.game.parts.desk, self.game.clock.seconds()
        for at in (now - 10, now - 5):
            self.game.parts.dashboard.health.take(
                self.game.parts.health, at, rss_mb=80.0, players=4
            )
        self.successResultOf(desk.figures.write())
        reply = self.ask().json
        self.assertEqual((reply["range"], reply["stepSeconds"], reply["now"]), ("hour", 60, now))
        self.assertEqual((sum(reply["players"]), reply["playersMost"]), (4.0, [4]))
        for name, step in (("day", 60), ("week", 3600), ("weeks", 86_400)):
            reply = self.ask(f"?range={name}").json
            self.assertEqual((reply["stepSeconds"], reply["rssMB"]), (step, [80.0]))

    @proves("GET DashboardFigures")
    def test_strangers_and_invalid_ranges_are_refused(self) -> None:
        for odd in ("year", "%00", "hour%20or%201", "Hour", "9" * 4000):
            self.assertEqual(self.ask(f"?range={odd}").status, 400, odd)
        ann = self.game.player("Ann_1")
        replies = [
            self.ask(headers={"Via": "1.1 x"}),
            self.ask(key=None),
            self.ask(key=ann.key),
            Game(self).browse("GET", "/svc/api/DashboardFigures", key=self.admin.key),
        ]
        self.assertEqual([reply.status for reply in replies], [403, 401, 403, 404])
        self.assertEqual(self.ask().headers["cache-control"], "no-store")


@pytest.mark.live
class SharedTests(SynchronousTestCase):
    @isolates("owner/figures: write")
    def test_workers_that_write_at_once_count_everything_once(self) -> None:
        two, rounds = TwoLedgers(self), 20
        workers = [Figures(ledger, lambda: AT) for ledger in two.ledgers]
        for _ in range(rounds):
            for worker in workers:
                worker.gathering.note(AT, counted(200, 500), None, 70.0, 3)
            two.wait_for(*(entry.write() for entry in workers))
        [hour] = transact(two.engines[0], lambda tx: SqlFigures(tx).since(HOUR_S, HOUR, int(AT)))
        counts = hour.span.counts
        self.assertEqual((counts.completed, counts.server_errors), (4 * rounds, 2 * rounds))
        self.assertEqual((hour.span.samples, hour.span.rss_mb), (2 * rounds, 70.0))
