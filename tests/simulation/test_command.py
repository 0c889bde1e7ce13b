"""The command that repeats a run has all parameters of the run, such as seconds and faults."""

import os
import shlex
import signal
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

from click.testing import CliRunner
from click.testing import Result as Ran
from twisted.trial.unittest import SynchronousTestCase

from simulation import __main__ as program
from simulation import ledger, run, wiring
from simulation.clock import World
from simulation.run import Result, Scenario, Turn
from simulation.shrink import command


class StopTests(SynchronousTestCase):
    """The first Ctrl-C ends a run early with a summary; the second ends the process immediately.

    The first Ctrl-C must raise no exception, because a simulated service would treat that exception
    as a fault of its own.
    """

    def run_beside(self, turns: Callable[[Turn], object]) -> None:
        self.patch(program, "simulate", lambda scenario, turn: turns(turn))
        program.with_bar(Scenario(1), quiet=True)

    def test_the_second_ctrl_c_ends_the_process(self) -> None:
        turned: list[bool] = []
        exits: list[int] = []
        self.patch(os, "_exit", exits.append)

        def turns(turn: Turn) -> None:
            turned.append(turn(0.1))
            signal.raise_signal(signal.SIGINT)
            turned.append(turn(0.2))
            signal.raise_signal(signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self.run_beside(turns)
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual((turned, exits), ([False, True], [130]))

    def test_a_background_process_ignores_ctrl_c(self) -> None:
        turned: list[bool] = []

        def turns(turn: Turn) -> None:
            signal.raise_signal(signal.SIGINT)
            turned.append(turn(0.2))

        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.run_beside(turns)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(turned, [False])

    def test_the_summary_and_exit_status_show_an_early_end(self) -> None:
        self.patch(program, "globalLogBeginner", Mock())
        self.patch(
            program,
            "simulate",
            lambda scenario, turn: run.simulate(scenario, lambda part: part > 0.2),
        )
        ran = CliRunner().invoke(program.main, ["--days", "0.01", "--players", "2"])
        self.assertEqual(ran.exit_code, 130, ran.output)
        self.assertIn("stopped before the 0.2 hours were over", ran.output)


class RoomTests(SynchronousTestCase):
    """The database of a long run is a file on this machine, whose disk may be full."""

    def setUp(self) -> None:
        self.patch(program, "globalLogBeginner", Mock())
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.patch(os, "environ", {**os.environ, "TMPDIR": folder.name, "SQLITE_TMPDIR": ""})
        self.patch(tempfile, "tempdir", folder.name)

    def lived(self) -> Ran:
        """Simulate some minutes with two players."""
        return CliRunner().invoke(program.main, ["--days", "0.005", "--players", "2"])

    def test_a_full_temporary_folder_is_one_line(self) -> None:
        template = ledger._template()
        [pages] = template.execute("PRAGMA page_count").fetchone()
        [size] = template.execute("PRAGMA page_size").fetchone()
        opened = sqlite3.connect
        for left in (0, 1):  # of pages

            def cramped(*arguments: Any, at_most: int = pages + left, **named: Any) -> Any:
                raw = opened(*arguments, **named)
                raw.execute(f"PRAGMA page_size={size}")
                raw.execute(f"PRAGMA max_page_count={at_most}")
                return raw

            self.patch(sqlite3, "connect", cramped)
            ran = self.lived()
            self.assertEqual(ran.exit_code, 1, ran.output)
            [line] = ran.output.splitlines()
            self.assertIn(f"{self.folder} cannot hold the database", line)
            self.assertIn("database or disk is full; make room there, or set TMPDIR to", line)

    def test_faults_of_the_simulated_disk_are_not_the_machines(self) -> None:
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

    def test_a_run_leaves_no_file_in_the_temporary_folder(self) -> None:
        wiring.game_files.cache_clear()
        self.assertEqual(self.lived().exit_code, 0)
        self.assertEqual(list(self.folder.iterdir()), [])


class ReplayTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.scenarios: list[Scenario] = []
        self.patch(program, "globalLogBeginner", Mock())

        def recorded(scenario: Scenario, *, quiet: bool) -> Result:
            self.scenarios.append(scenario)
            raise ledger.NoScratch("not run")

        self.patch(program, "with_bar", recorded)

    def scenario_for(self, line: str) -> Scenario:
        """Return the scenario of a command line."""
        python, option, module, *words = shlex.split(line)
        self.assertEqual((python, option, module), ("python", "-m", "simulation"))
        CliRunner().invoke(program.main, words)
        return self.scenarios.pop()

    def test_short_days_are_whole_seconds(self) -> None:
        for days, seconds in (("0.04", 3456.0), ("0.041666666667", 3600.0), ("1", 86_400.0)):
            scenario = self.scenario_for(f"python -m simulation --days {days}")
            self.assertEqual(scenario.seconds, seconds)

    def test_any_number_of_seconds_is_replayed(self) -> None:
        for seconds in (1.0, 7.0, 300.0, 3456.0, 3599.0, 3600.0, 100_000.0, 30 * 86_400.0):
            scenario = Scenario(117, 20, seconds, faults=seconds < 500.0)
            self.assertEqual(self.scenario_for(command(scenario)), scenario)

    def test_a_run_from_a_file_of_steps_is_replayed(self) -> None:
        folder = Path(self.enterContext(TemporaryDirectory()))
        file = folder / "the evening.steps"
        steps = list(Scenario(3, 2, 60.0).script().steps)
        file.write_text("# a comment\n" + "".join(f"{step.line()}\n" for step in steps))
        for faults in ("", " --faults"):
            options = f"--seed 9 --players 2 --steps {shlex.quote(str(file))}{faults}"
            scenario = self.scenario_for(f"python -m simulation {options}")
            self.assertEqual(scenario.steps, steps)
            self.assertEqual(scenario.faults, bool(faults))
            self.assertEqual(self.scenario_for(command(scenario)), scenario)
