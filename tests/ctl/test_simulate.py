"""The command that replays a run gives the very same wish: its seconds, its file, its faults."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner, Result
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import simulate as ctl
from svcserver.ctl import simulating
from svcserver.sim import ledger, run, wiring
from svcserver.sim.clock import World
from svcserver.sim.run import Turn, Wish
from svcserver.sim.shrink import command

EVENING = (
    '{"t":1000.0,"who":"a","route":"POST /account/api/oauth/token","status":200,"ms":1.0}',
    '{"t":1003.5,"who":"b","route":"POST /heartbeat","status":200,"ms":1.0}',
    '{"t":1400.25,"who":"b","route":"POST /party","status":200,"ms":1.0}',
)


class _NoLogging:
    """In place of the beginner of logs, which the tests' runner has used already."""

    def beginLoggingTo(self, *_: Any, **__: Any) -> None:
        """Begin nothing."""


class StopTests(SynchronousTestCase):
    """Ctrl-C once: the run is told to end, and tells what it has seen; twice: it is over at once.

    Nothing is raised: the simulated services would take that for a fault of theirs.
    """

    def run_beside(self, turns: Callable[[Turn], object]) -> None:
        self.patch(simulating, "simulate", lambda wish, turn: turns(turn))
        simulating.with_bar(Wish(1), quiet=True)

    def test_the_first_is_an_end_and_the_second_ends_the_process(self) -> None:
        told: list[bool] = []
        exits: list[int] = []
        self.patch(os, "_exit", exits.append)

        def turns(turn: Turn) -> None:
            told.append(turn(0.1))
            signal.raise_signal(signal.SIGINT)
            told.append(turn(0.2))
            signal.raise_signal(signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self.run_beside(turns)
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual((told, exits), ([False, True], [130]))

    def test_what_runs_in_the_background_is_left_alone(self) -> None:
        told: list[bool] = []

        def turns(turn: Turn) -> None:
            signal.raise_signal(signal.SIGINT)
            told.append(turn(0.2))

        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.run_beside(turns)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(told, [False])

    def test_the_summary_says_that_it_was_stopped_and_so_does_the_exit(self) -> None:
        self.patch(ctl, "globalLogBeginner", _NoLogging())
        self.patch(
            simulating, "simulate", lambda wish, turn: run.simulate(wish, lambda part: part > 0.2)
        )
        ran = CliRunner().invoke(ctl.simulate_command, ["--days", "0.01", "--players", "2"])
        self.assertEqual(ran.exit_code, 130, ran.output)
        self.assertIn("stopped before the 0.2 hours were over", ran.output)


class RoomTests(SynchronousTestCase):
    """The database of a long run lies in a file of this machine, which may have no room for it."""

    def setUp(self) -> None:
        self.patch(ctl, "globalLogBeginner", _NoLogging())
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.patch(os, "environ", {**os.environ, "TMPDIR": folder.name, "SQLITE_TMPDIR": ""})
        self.patch(tempfile, "tempdir", folder.name)

    def lived(self) -> Result:
        """Of ``svcctl simulate`` with some minutes of two players."""
        return CliRunner().invoke(ctl.simulate_command, ["--days", "0.005", "--players", "2"])

    def test_one_line_says_that_there_is_no_room_and_nothing_is_told_of_the_host(self) -> None:
        template = ledger._template()
        [pages] = template.execute("PRAGMA page_count").fetchone()
        [size] = template.execute("PRAGMA page_size").fetchone()
        opened = sqlite3.connect
        for left in (0, 1):  # of pages

            def cramped(*given: Any, at_most: int = pages + left, **named: Any) -> Any:
                raw = opened(*given, **named)
                raw.execute(f"PRAGMA page_size={size}")
                raw.execute(f"PRAGMA max_page_count={at_most}")
                return raw

            self.patch(sqlite3, "connect", cramped)
            ran = self.lived()
            self.assertEqual(ran.exit_code, 1, ran.output)
            [line] = ran.output.splitlines()
            self.assertIn(f"{self.folder} does not take the database", line)
            self.assertIn("database or disk is full; make room there, or let TMPDIR name", line)

    def test_a_disk_that_fails_on_purpose_is_the_simulations(self) -> None:
        disk = ledger.Disk(World(1))
        disk.fill()
        full = self.assertRaises(sqlite3.OperationalError, self.grow, disk)
        ledger.judge(full, filled=disk.filled)
        self.assertRaises(ledger.NoScratch, ledger.judge, full)
        ledger.judge(ledger._io_error())
        disk.make_room()
        self.assertFalse(disk.filled)
        self.grow(disk)

    @staticmethod
    def grow(disk: ledger.Disk) -> None:
        disk.raw.execute("CREATE TABLE more AS SELECT zeroblob(100000) AS what")

    def test_nothing_is_left_behind(self) -> None:
        wiring.game_files.cache_clear()
        self.assertEqual(self.lived().exit_code, 0)
        self.assertEqual(list(self.folder.iterdir()), [])


class ReplayTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.wishes: list[Wish] = []
        self.patch(ctl, "globalLogBeginner", _NoLogging())
        self.patch(simulating, "run", lambda out, wish, shown, *, shrink: self.wishes.append(wish))

    def wished(self, line: str) -> Wish:
        """What ``svcctl simulate`` would run."""
        program, word, *words = shlex.split(line)
        self.assertEqual((program, word), ("svcctl", "simulate"))
        ran = CliRunner().invoke(ctl.simulate_command, words)
        self.assertEqual(ran.exit_code, 0, ran.output)
        return self.wishes.pop()

    def test_short_days_are_whole_seconds(self) -> None:
        for days, seconds in (("0.04", 3456.0), ("0.041666666667", 3600.0), ("1", 86_400.0)):
            found = self.wished(f"svcctl simulate --days {days}")
            self.assertEqual(found.seconds, seconds)

    def test_any_number_of_seconds_is_replayed(self) -> None:
        for seconds in (1.0, 7.0, 300.0, 3456.0, 3599.0, 3600.0, 100_000.0, 30 * 86_400.0):
            wish = Wish(117, 20, seconds, faults=seconds < 500.0)
            self.assertEqual(self.wished(command(wish)), wish)

    def test_an_evening_from_a_file_is_replayed(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = Path(folder.name) / "the evening.jsonl"
        file.write_text("".join(f"{one}\n" for one in EVENING))
        for faults in ("", " --faults"):
            told = f"svcctl simulate --seed 9 --from {shlex.quote(str(file))}{faults}"
            first = self.wished(told)
            self.assertEqual((first.seed, first.players), (9, 2))
            self.assertGreater(first.seconds, 400.0)
            self.assertEqual(bool(first.faults), bool(faults))
            self.assertEqual(self.wished(command(first)), first)

    def test_a_file_of_steps_and_an_evening_are_not_taken_together(self) -> None:
        file = Path(__file__)
        words = ["--from", str(file), "--steps", str(file)]
        self.assertEqual(CliRunner().invoke(ctl.simulate_command, words).exit_code, 1)
        self.assertEqual(self.wishes, [])
