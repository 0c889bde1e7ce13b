"""The nightly backup inside the stack."""

import os
from datetime import datetime, time, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import backups
from svcserver.kernel.backup_settings import read_settings, time_of_day
from svcserver.kernel.backups import Backup, Backups
from svcserver.stack.backups import CHECK_S, REQUESTS_S, SETTLE_S, Nightly, is_due
from tests.stack.spawner import Spawner
from tests.support.proves import proves

MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1))
BACKUP = Backup("/b/one.tar.gz", 1_000.0, 5, "ab")


class DueTests(SynchronousTestCase):
    @proves("svc-stack: a nightly backup")
    def test_backup_is_due_once_a_night_or_after_a_missed_night(self) -> None:
        at, day = time(4), datetime(2026, 11, 22)
        self.assertTrue(is_due(day.replace(hour=4), at, day - timedelta(hours=20)))
        self.assertFalse(is_due(day.replace(hour=3), at, day - timedelta(hours=20)))
        self.assertTrue(is_due(day.replace(hour=11), at, day - timedelta(days=2)))
        self.assertTrue(is_due(day, at, None))

    @given(MOMENTS, st.times())
    def test_backup_is_never_due_twice_in_a_row(self, now: datetime, at: time) -> None:
        self.assertFalse(is_due(now, at, now))

    def test_backup_time_is_hours_and_minutes_or_off(self) -> None:
        self.assertEqual(time_of_day("4:05"), time(4, 5))
        self.assertIsNone(time_of_day(" Off "))
        for bad in ("24:00", "4", "04:60", "4:5", "four", "-1:00", "04:00:00"):
            self.assertRaises(ValueError, time_of_day, bad)


class NightlyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        self.reactor = Spawner()
        self.lines: list[str] = []
        self.now = datetime(2026, 11, 22, 1).timestamp()
        self.patch_clock()
        self.nightly = Nightly(
            self.reactor,
            self.folder,
            self.folder,
            lambda: read_settings(self.folder, {}).at,
            {"PATH": "/bin"},
            lambda name, line: self.lines.append(f"[{name}] {line}\n"),
        )
        self.nightly.startService()

    def patch_clock(self) -> None:
        began = self.now
        patched = mock.patch(
            "svcserver.stack.backups.epoch", lambda: began + self.reactor.seconds()
        )
        patched.start()
        self.addCleanup(patched.stop)

    def wait(self, seconds: float) -> None:
        self.reactor.pump([CHECK_S] * int(seconds / CHECK_S))

    @proves("svc-stack: a nightly backup")
    def test_new_host_has_a_backup_soon_and_then_every_night(self) -> None:
        self.wait(SETTLE_S - CHECK_S)
        self.assertEqual(self.reactor.spawned, [])
        self.wait(2 * CHECK_S)
        [first] = self.reactor.spawned
        self.assertEqual(first.arguments[-4:], ["backup", "nightly", "--config", str(self.folder)])
        self.assertEqual(first.environment, {"PATH": "/bin"})
        backups.write(self.folder, Backups([BACKUP], tried=self.now + self.reactor.seconds()))
        first.protocol.outReceived(b"one.tar.gz: 5 bytes\n")
        first.ends()
        self.assertEqual(self.lines, ["[backup] one.tar.gz: 5 bytes\n"])
        self.wait(2 * 3600)
        self.assertEqual(len(self.reactor.spawned), 1)
        self.wait(3600)  # four o'clock
        self.assertEqual(len(self.reactor.spawned), 2)
        self.reactor.spawned[1].ends(status=1)
        self.wait(3600)  # a backup that failed is not started again and again
        self.assertEqual(len(self.reactor.spawned), 2)

    @proves("svc-stack: a nightly backup", "POST DashboardBackup")
    def test_requested_backup_begins_at_once_and_only_one_runs(self) -> None:
        now = self.now + self.reactor.seconds()
        self.request(now)
        self.reactor.advance(REQUESTS_S)
        self.assertEqual(len(self.reactor.spawned), 1)
        self.assertFalse(backups.is_requested(self.folder, now))
        self.request(now)
        self.reactor.advance(REQUESTS_S)
        self.assertEqual(len(self.reactor.spawned), 1)
        self.reactor.spawned[0].ends()
        self.request(now - backups.REQUEST_S - 1)
        self.reactor.advance(REQUESTS_S)
        self.assertEqual(len(self.reactor.spawned), 1)

    def request(self, at: float) -> None:
        backups.request(self.folder, at)
        os.utime(self.folder / backups.REQUEST_FILE, (at, at))

    @proves("svc-stack: a nightly backup", "POST DashboardBackupSchedule")
    def test_a_changed_schedule_is_followed_without_a_restart(self) -> None:
        self.wait(CHECK_S)
        self.assertIsNotNone(self.known().since)
        (self.folder / "stack.env").write_text("BACKUP_AT=off\n")
        self.wait(8 * 3600)
        self.assertEqual(self.reactor.spawned, [])
        self.assertIsNone(self.known().since)
        (self.folder / "stack.env").write_text("BACKUP_AT=11:00\n")
        self.wait(3600)
        self.assertEqual(len(self.reactor.spawned), 1)
        self.reactor.spawned[0].ends()
        (self.folder / "stack.env").write_text("BACKUP_AT=late\n")
        self.wait(2 * 3600)  # eleven o'clock
        self.assertEqual(len(self.reactor.spawned), 2)

    def known(self) -> Backups:
        state = backups.read(self.folder)
        assert state is not None
        return state

    @proves("svc-stack: a nightly backup")
    def test_backup_that_crashes_early_is_a_fault(self) -> None:
        self.wait(SETTLE_S + CHECK_S)
        self.reactor.spawned[0].ends(signal=9)
        self.assertIn("signal 9", self.known().wrong(self.now) or "")

    @proves("svc-stack: a nightly backup")
    def test_backup_that_cannot_be_started_is_a_fault(self) -> None:
        with mock.patch.object(self.reactor, "spawnProcess", side_effect=OSError(12, "no memory")):
            self.wait(SETTLE_S + CHECK_S)
        self.assertIn("no memory", self.known().wrong(self.now) or "")

    def test_fault_that_the_backup_wrote_stays(self) -> None:
        self.wait(SETTLE_S + CHECK_S)
        backups.write(self.folder, Backups(fault="the disk is full"))
        self.reactor.spawned[0].ends(status=1)
        self.assertEqual(self.known().fault, "the disk is full")

    def test_stop_kills_a_hanging_backup_and_waits_for_its_end(self) -> None:
        self.wait(SETTLE_S + CHECK_S)
        [run] = self.reactor.spawned
        run.obedient = False
        stopped = self.nightly.stopService()
        assert stopped is not None
        self.assertEqual(run.signals, ["TERM"])
        self.assertNoResult(stopped)
        self.reactor.advance(10)
        self.successResultOf(stopped)
        self.assertEqual(self.reactor.getDelayedCalls(), [])


class StateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))

    @proves("svcctl backup: a damaged one is noticed")
    def test_state_is_read_back_and_its_fault_named(self) -> None:
        self.assertIsNone(backups.read(self.folder))
        good = Backup("/b/a.tar.gz", 100.0, 5, "ab", proven=117.0)
        bad = Backup("/b/b.tar.gz", 50.0, 5, "ab", fault="it is damaged")
        state = Backups([good, bad], tried=100.0)
        backups.write(self.folder, state)
        read = backups.read(self.folder)
        assert read is not None
        self.assertEqual(read, state)
        self.assertEqual((read.proven, read.newest), (117.0, good))
        self.assertEqual(read.wrong(200.0), "b.tar.gz: it is damaged")
        self.assertIsNone(Backups([good], 100.0).wrong(200.0))
        self.assertIn("two days", Backups([good], 100.0).wrong(100.0 + 3 * 86_400) or "")
        self.assertEqual(Backups([good], 100.0, "disk full").wrong(200.0), "disk full")
        self.assertIsNone(Backups().wrong(1.0))

    @proves("svcctl backup: one that dies in the middle is noticed")
    def test_killed_backup_is_a_fault(self) -> None:
        good = Backup("/b/a.tar.gz", 100.0, 5, "ab", proven=117.0)
        with backups.running(self.folder) as free:
            self.assertTrue(free)
            backups.write(self.folder, Backups([good], 100.0, begun=150.0))
            self.assertIsNone(self.known().wrong(200.0))  # it runs
            with backups.running(self.folder) as second:
                self.assertFalse(second)
        self.assertIn("did not finish", self.known().wrong(200.0) or "")
        backups.write(self.folder, evolve(self.known(), begun=None))
        self.assertIsNone(self.known().wrong(200.0))

    @proves("svcctl backup: one that dies in the middle is noticed")
    def test_old_unfinished_backup_is_a_fault_without_a_lock(self) -> None:
        state = Backups([BACKUP], 1_000.0, begun=1_000.0)
        self.assertIsNone(state.wrong(1_000.0 + backups.LONGEST_S))
        self.assertIn("did not finish", state.wrong(1_001.0 + 2 * backups.LONGEST_S) or "")

    @proves("alerts: no backup was ever made")
    def test_no_backup_after_two_nights_is_a_fault(self) -> None:
        backups.expect(self.folder, 1_000.0, wanted=True)
        backups.expect(self.folder, 90_000.0, wanted=True)  # the backup has begun again
        self.assertIsNone(self.known().wrong(1_000.0 + backups.STALE_S))
        self.assertEqual(self.known().wrong(1_001.0 + backups.STALE_S), backups.NEVER)
        backups.expect(self.folder, 91_000.0, wanted=False)  # BACKUP_AT=off
        self.assertIsNone(self.known().wrong(9e9))

    def known(self) -> Backups:
        state = backups.read(self.folder)
        assert state is not None
        return state

    def test_without_drills_the_age_of_the_newest_backup_counts(self) -> None:
        nights = [Backup(f"/b/{day}.tar.gz", day * 86_400.0, 5, "ab") for day in (9, 8, 7, 6)]
        state = Backups(nights, nights[0].made, drilled=False)
        backups.write(self.folder, state)
        self.assertEqual(backups.read(self.folder), state)
        self.assertIsNone(state.wrong(9.5 * 86_400))
        self.assertIn("made for two days", state.wrong(12 * 86_400) or "")
        self.assertIn("tested", Backups(nights, nights[0].made).wrong(9.5 * 86_400) or "")

    def test_damaged_state_file_is_ignored(self) -> None:
        for text in ("", "[]", '{"form":2,"kept":[]}', '{"form":1,"kept":[{"x":1}]}'):
            (self.folder / backups.STATE_FILE).write_text(text)
            self.assertIsNone(backups.read(self.folder))
