"""The forecast of when a host's disks are full, based on their growth."""

import os
import time
from pathlib import Path
from unittest import mock

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import capacity, disk_growth
from svcserver.ctl.disk_growth import DAY_S, RESERVE, Filled, Filling, disks, merged
from svcserver.ctl.host import find
from svcserver.kernel import backups
from svcserver.kernel.backups import Backup, Backups
from svcserver.stack.alerts.disks import Disk
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves

MB = 1 << 20
RATES = st.floats(0, 1e9)


def filled(free: int, *fillings: Filling) -> Filled:
    """Return a disk that has this many free bytes in addition to the reserve."""
    return Filled(Path("/"), Disk(1, RESERVE + free, 10 * RESERVE), list(fillings))


class FilledTests(SynchronousTestCase):
    @proves("svcctl capacity")
    def test_the_forecast_gives_the_day_when_the_disk_is_full(self) -> None:
        database = Filling("database", 50, a_day=10)
        for free, day in ((1_000, 101), (999, 100), (5, 1), (-1, 0), (36_500, None)):
            self.assertEqual(filled(free, database).full_in, day, free)
        turning = Filling("logs", 0, soon_a_day=90, soon=500)
        self.assertEqual(filled(500, turning).full_in, None)
        self.assertEqual(filled(499, turning).full_in, 6)
        self.assertEqual(filled(1_000, database, turning).full_in, 51)
        over = Filling("logs", 900, soon_a_day=9, soon=-400)  # one that an owner has made larger
        self.assertEqual(over.gains(30), 0)

    @given(RATES, RATES, RATES, st.integers(0, 1 << 50))
    def test_a_disk_has_room_until_the_day_before_it_is_full(
        self, a_day: float, soon_a_day: float, soon: float, free: int
    ) -> None:
        disk = filled(free, Filling("x", 0, a_day, soon_a_day, soon))
        if disk.full_in is not None:
            self.assertGreater(disk.gains(disk.full_in), disk.usable)
            self.assertLessEqual(disk.gains(max(0, disk.full_in - 1)), disk.usable)

    def test_rows_with_the_same_name_are_merged_into_one(self) -> None:
        rows = [Filling("logs", 1, 1, 1, 1), Filling("database", 9), Filling("logs", 2, 2, 2, 2)]
        self.assertEqual(merged(rows), [Filling("logs", 3, 3, 3, 3), Filling("database", 9)])


class AgeTests(HostCase):
    @proves("svcctl capacity")
    def test_a_host_is_as_old_as_its_first_account(self) -> None:
        host = find(str(self.folder), None)
        _, days = disks(host, self.folder, time.time() + 7 * DAY_S)
        self.assertAlmostEqual(days, 7, places=1)
        self.assertEqual(disks(host, self.folder)[1], 1.0)  # one day is too short for a forecast


class HostTests(HostCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = find(str(self.folder), None)
        os.truncate(self.folder / "svc.db", 80 * MB)
        (self.folder / "gameserver-logs").mkdir()
        os.truncate(self.touched(self.folder / "gameserver-logs" / "hunt-8770.log"), MB)
        os.truncate(self.touched(self.folder / "stack.log"), 5 * MB)

    def touched(self, path: Path) -> Path:
        path.touch()
        return path

    def grown(self, days: float) -> Filled:
        """Return the growth of the disk of a host that is this many days old."""
        at = mock.patch.object(disk_growth, "_of_database", lambda tx: (0.0, 0))
        with at:
            [disk], age = disks(self.host, self.folder, days * DAY_S)
        self.assertEqual(age, max(1.0, days))
        return disk

    @proves("svcctl capacity")
    def test_growth_of_database_logs_and_backups_is_extrapolated(self) -> None:
        state = Backups([Backup(f"/b/{at}", at, 2 * MB, "ab") for at in (9.0, 8.0)])
        backups.write(self.folder, state)
        rows = {filling.name: filling for filling in merged(self.grown(20).fillings)}
        self.assertEqual(rows["database"], Filling("database", 80 * MB, a_day=4 * MB))
        logs = rows["logs"]
        self.assertEqual((logs.has, logs.soon_a_day), (6 * MB, 0.3 * MB))
        self.assertEqual(logs.soon, (32 - 5 + 2 * 8 - 1) * MB)  # where they turn
        copies = rows["backups"]
        self.assertEqual((copies.has, copies.soon_a_day), (4 * MB, 2 * MB))
        self.assertEqual(copies.soon, (7 + 4 + 12 - 2) * 2 * MB)
        self.assertAlmostEqual(copies.a_day, 23 * 2 * MB / 80 * 4)  # each as much larger

    def test_a_host_without_backups_has_no_forecast_for_them(self) -> None:
        (self.folder / "stack.env").write_text("BACKUP_AT=off\n")
        self.assertEqual({filling.name for filling in self.grown(2).fillings}, {"database", "logs"})

    @proves("svcctl capacity")
    def test_a_disk_that_is_full_within_a_month_is_the_first_limit(self) -> None:
        full = filled(20 * MB, Filling("database", 40 * MB, a_day=2 * MB))
        second = evolve(full, place=Path("/backups"))
        with (
            mock.patch.object(capacity, "SAMPLE_S", 0.05),
            mock.patch.object(capacity, "idle_ticks", side_effect=[0, 10_000]),
            mock.patch.object(capacity, "disks", return_value=([full, second], 20.0)),
        ):
            ran = self.ctl("capacity", "--json")
        self.assertEqual((ran.data["first"], ran.data["more"]), ("disk", 0))
        self.assertEqual([disk["full_in_days"] for disk in ran.data["disks"]], [11, 11])
        self.assertIn("disk of /backups", [disk["name"] for disk in ran.data["limits"]])

    def test_capacity_prints_the_disk_growth_as_a_chart(self) -> None:
        began = time.time() - 10 * DAY_S
        with (
            mock.patch.object(capacity, "SAMPLE_S", 0.05),
            mock.patch.object(disk_growth, "_of_database", lambda tx: (began, 0)),
        ):
            ran = self.ctl("capacity")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn(f"disk of {self.folder}: ", ran.out)
        self.assertIn("estimated from the growth of 10 days", ran.out)
        [row] = [line for line in ran.out.splitlines() if line.startswith("database")]
        self.assertEqual(row.split()[1:3], ["80.0", "320.0"])
        self.assertIn("█", row)
