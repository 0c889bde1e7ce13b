"""The choice of backups to keep and backups to delete, by their age."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.backup.command import BackupRetention
from tests.support.proves import proves

MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31))


def nights(count: int) -> list[datetime]:
    """Return the times of ``count`` nightly backups, at four o'clock, the last on 2026-11-22."""
    last = datetime(2026, 11, 22, 4)
    return [last - timedelta(days=number) for number in range(count)]


class RetentionTests(SynchronousTestCase):
    @proves("svcctl backup: 7 days, 4 weeks, 12 months")
    def test_seven_days_four_weeks_and_twelve_months_of_two_years(self) -> None:
        dates = sorted(BackupRetention().select_dates(nights(730)), reverse=True)
        self.assertEqual(dates[:7], nights(7))
        days = [f"{date:%m-%d}" for date in dates[7:10]]
        self.assertEqual(days, ["11-15", "11-08", "11-01"][: len(days)])
        self.assertIn(datetime(2026, 10, 31, 4), dates)
        self.assertEqual(min(dates), datetime(2025, 12, 31, 4))
        self.assertLessEqual(len(dates), 7 + 4 + 12)

    @given(st.lists(MOMENTS, max_size=60))
    def test_the_newest_backup_is_always_kept(self, made: list[datetime]) -> None:
        dates = BackupRetention(1, 0, 0).select_dates(made)
        self.assertLessEqual(dates, set(made))
        if made:
            self.assertIn(max(made), dates)

    @given(st.lists(MOMENTS, max_size=60))
    def test_a_second_retention_run_deletes_nothing_more(self, made: list[datetime]) -> None:
        """Deleting old backups is idempotent: a second run finds nothing more to delete."""
        rule = BackupRetention(3, 2, 2)
        dates = rule.select_dates(made)
        self.assertEqual(rule.select_dates(list(dates)), dates)
