"""Shrinking keeps what matters and little else, and what a failure prints shows it again."""

from __future__ import annotations

import json
import shlex
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from simulation import __main__ as program
from simulation.run import Wish, simulate
from simulation.script import Step, script
from simulation.shrink import fewest, shrunk, told
from svcserver.metagame.social.parties import rules


class ShrinkTests(SynchronousTestCase):
    def test_two_steps_that_matter_remain(self) -> None:
        steps = script(1, 4, 1800.0)
        wanted = {steps[10], steps[-7]}
        found = fewest(steps, lambda some: wanted <= set(some), lambda: True)
        self.assertEqual(set(found), wanted)

    def test_it_ends_when_the_time_is_over(self) -> None:
        steps = script(1, 4, 1800.0)
        self.assertEqual(fewest(steps, lambda some: True, lambda: False), steps)


class _NoLogging:
    """In place of the beginner of logs, which the tests' runner has used already."""

    def beginLoggingTo(self, *_: Any, **__: Any) -> None:
        """Begin nothing."""


class FailureTests(SynchronousTestCase):
    """A bug planted in the rules of parties, from the failure to its replay."""

    def replayed(self, line: str) -> dict[str, Any]:
        """What the printed command says, as one object."""
        python, option, module, *words = shlex.split(line)
        self.assertEqual((python, option, module), ("python", "-m", "simulation"))
        ran = CliRunner().invoke(program.main, [*words, "--json"])
        self.assertEqual(ran.exit_code, 1, ran.output)
        said: dict[str, Any] = json.loads(ran.output.splitlines()[0])
        return said

    # slow: ten simulations of four minutes
    def test_what_a_failure_prints_shows_it_again(self) -> None:
        self.patch(rules, "MAX_MEMBERS", rules.MAX_MEMBERS + 1)
        self.patch(program, "globalLogBeginner", _NoLogging())
        result = simulate(Wish(5, 6, 240.0))
        rule = result.violations[0].rule
        self.assertEqual(rule, "seats within limits")
        looks = count()
        text = told(result, shrunk(result, 7, clock=lambda: float(next(looks))))
        self.assertTrue(text.startswith("seed 5:\n"), text)
        lines = text.splitlines()
        at = lines.index("steps:")
        again, alone = (one.partition(": ")[2] for one in lines[-2:])
        steps = [Step.read(one) for one in lines[at + 1 : -2]]
        self.assertLess(len(steps), result.steps / 2)

        whole = self.replayed(again)
        self.assertEqual((whole["hash"], whole["wrong"][0]["rule"]), (result.hash, rule))

        words, file = alone.rsplit(" ", 1)
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        kept = Path(folder.name) / "kept.steps"
        kept.write_text("".join(f"{one.line()}\n" for one in steps))
        self.assertEqual(file, "seed-5.steps")
        short = self.replayed(f"{words} {kept}")
        self.assertIn(rule, [one["rule"] for one in short["wrong"]])
        self.assertEqual(short["steps"], len(steps))

    def test_without_the_bug_the_same_seed_is_sound(self) -> None:
        self.assertEqual(simulate(Wish(5, 6, 240.0)).violations, [])
