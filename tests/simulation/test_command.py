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

from click.testing import CliRunner
from click.testing import Result as Ran
from twisted.trial.unittest import SynchronousTestCase

from simulation import __main__ as program
from simulation import ledger, run, wiring
from simulation.clock import World
from simulation.run import Result, Turn, Wish
from simulation.shrink import command


class _NoLogging:
    """In place of the beginner of logs, which the tests' runner has used already."""

    def beginLoggingTo(self, *_: Any, **__: Any) -> None:
        """Begin nothing."""


class StopTests(SynchronousTestCase):
    """Ctrl-C once: the run is told to end, and tells what it has seen; twice: it is over at once.

    Nothing is raised: the simulated services would take that for a fault of theirs.
    """

    def run_beside(self, turns: Callable[[Turn], object]) -> None:
        self.patch(program, "simulate", lambda wish, turn: turns(turn))
        program.with_bar(Wish(1), quiet=True)

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
        self.patch(program, "globalLogBeginner", _NoLogging())
        self.patch(
            program, "simulate", lambda wish, turn: run.simulate(wish, lambda part: part > 0.2)
        )
        ran = CliRunner().invoke(program.main, ["--days", "0.01", "--players", "2"])
        self.assertEqual(ran.exit_code, 130, ran.output)
        self.assertIn("stopped before the 0.2 hours were over", ran.output)


class RoomTests(SynchronousTestCase):
    """The database of a long run lies in a file of this machine, which may have no room for it."""

    def setUp(self) -> None:
        self.patch(program, "globalLogBeginner", _NoLogging())
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.patch(os, "environ", {**os.environ, "TMPDIR": folder.name, "SQLITE_TMPDIR": ""})
        self.patch(tempfile, "tempdir", folder.name)

    def lived(self) -> Ran:
        """Run some minutes of two players."""
        return CliRunner().invoke(program.main, ["--days", "0.005", "--players", "2"])

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
        self.patch(program, "globalLogBeginner", _NoLogging())

        def recorded(wish: Wish, *, quiet: bool) -> Result:
            self.wishes.append(wish)
            raise ledger.NoScratch("not run")

        self.patch(program, "with_bar", recorded)

    def wished(self, line: str) -> Wish:
        """Return what this command line would run."""
        python, option, module, *words = shlex.split(line)
        self.assertEqual((python, option, module), ("python", "-m", "simulation"))
        CliRunner().invoke(program.main, words)
        return self.wishes.pop()

    def test_short_days_are_whole_seconds(self) -> None:
        for days, seconds in (("0.04", 3456.0), ("0.041666666667", 3600.0), ("1", 86_400.0)):
            wish = self.wished(f"python -m simulation --days {days}")
            self.assertEqual(wish.seconds, seconds)

    def test_any_number_of_seconds_is_replayed(self) -> None:
        for seconds in (1.0, 7.0, 300.0, 3456.0, 3599.0, 3600.0, 100_000.0, 30 * 86_400.0):
            wish = Wish(117, 20, seconds, faults=seconds < 500.0)
            self.assertEqual(self.wished(command(wish)), wish)

    def test_a_run_from_a_file_of_steps_is_replayed(self) -> None:
        folder = Path(self.enterContext(TemporaryDirectory()))
        file = folder / "the evening.steps"
        steps = list(Wish(3, 2, 60.0).script().steps)
        file.write_text("# a comment\n" + "".join(f"{step.line()}\n" for step in steps))
        for faults in ("", " --faults"):
            options = f"--seed 9 --players 2 --steps {shlex.quote(str(file))}{faults}"
            wish = self.wished(f"python -m simulation {options}")
            self.assertEqual(wish.steps, steps)
            self.assertEqual(wish.faults, bool(faults))
            self.assertEqual(self.wished(command(wish)), wish)
