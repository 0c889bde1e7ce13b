"""Thinning of old saves: which saves remain per hour and per day. Spec: 2 §4 SaveHistory."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.savehistory.feature import RollbackRequest
from svcserver.metagame.belongings.savehistory.rules import (
    DAY_MS,
    HOUR_MS,
    MOST_REPEATABLE,
    Retention,
    Save,
    thinned,
)


def asked_for(body: Any) -> tuple[str, int]:
    sent = reader(RollbackRequest)(body)
    return sent.character_id, sent.version


class ThinningTests(SynchronousTestCase):
    def test_retention_keeps_48_hours_and_30_days_by_default(self) -> None:
        self.assertEqual(Retention(), Retention(keep=None, hourly=48, daily=30))
        self.assertEqual((HOUR_MS, DAY_MS), (3_600_000, 86_400_000))

    def test_thinning_keeps_the_last_save_of_each_recent_hour_and_day(self) -> None:
        now_ms = 10 * DAY_MS + 5 * HOUR_MS + 600_001
        times = [day * DAY_MS + n for day in (7, 8, 9) for n in (0, DAY_MS - 1)]
        times += [10 * DAY_MS + hour * HOUR_MS + n for hour in (2, 3, 4, 5) for n in (0, 1)]
        saves = [Save(number, at) for number, at in enumerate(times)]
        gone = thinned(saves, Retention(keep=1, hourly=3, daily=2), now_ms / 1000)
        left = [times[save.id] for save in saves if save.id not in gone]
        hours = [10 * DAY_MS + hour * HOUR_MS + 1 for hour in (3, 4, 5)]
        self.assertEqual(left, [10 * DAY_MS - 1, *hours])
        gone = thinned(saves, Retention(keep=1, hourly=0, daily=3), now_ms / 1000)
        left = [times[save.id] for save in saves if save.id not in gone]
        self.assertEqual(left, [9 * DAY_MS - 1, 10 * DAY_MS - 1, times[-1]])
        gone = thinned(saves, Retention(keep=3, hourly=0, daily=0), now_ms / 1000)
        self.assertEqual(gone, [save.id for save in reversed(saves[:-3])])

    def test_a_request_of_the_last_ten_minutes_keeps_its_save(self) -> None:
        times = (0, 1_000, 2_000, 3_000)
        saves = [Save(number, at, f"r{number}") for number, at in enumerate(times)]
        retention = Retention(keep=1, hourly=0, daily=0)
        for now_s, gone in ((600.5, [0]), (601.5, [1, 0]), (9_000.0, [2, 1, 0])):
            self.assertEqual(thinned(saves, retention, now_s), gone)

    def test_requests_keep_a_bounded_number_of_saves(self) -> None:
        retention = Retention(keep=2, hourly=0, daily=0)
        saves = [Save(number, 0, f"r{number}") for number in range(MOST_REPEATABLE + 9)]
        self.assertEqual(len(thinned(saves, retention, 1.0)), 9)
        self.assertEqual(thinned([Save(n, 0) for n in range(4)], retention, 1.0), [1, 0])


class RollbackTests(SynchronousTestCase):
    def test_the_largest_version_may_be_asked_for(self) -> None:
        most = 2**53 - 1
        for sent in (most, float(most)):
            self.assertEqual(asked_for({"CharacterId": "c", "Version": sent}), ("c", most))
        with self.assertRaises(Malformed):
            asked_for({"CharacterId": "c", "Version": most + 1})
