"""Shrinking keeps the steps that matter, and a printed failure can be repeated."""

import json
import shlex
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from simulation import __main__ as program
from simulation.run import Scenario, simulate
from simulation.script import Step, script
from simulation.shrink import failure_report, fewest, shrunk
from svcserver.metagame.social.parties import rules


class ShrinkTests(SynchronousTestCase):
    def test_two_steps_that_matter_remain(self) -> None:
        steps = script(1, 4, 1800.0)
        wanted = {steps[10], steps[-7]}
        remaining = fewest(steps, lambda some: wanted <= set(some), lambda: True)
        self.assertEqual(set(remaining), wanted)

    def test_shrinking_ends_at_the_deadline_with_the_steps_so_far(self) -> None:
        steps = script(1, 4, 1800.0)
        self.assertEqual(fewest(steps, lambda some: True, lambda: False), steps)


class FailureTests(SynchronousTestCase):
    """A bug planted in the party rules, from its detection to its reproduction."""

    def replayed(self, line: str) -> dict[str, Any]:
        """Run the printed command with ``--json`` and return the object that it prints."""
        python, option, module, *words = shlex.split(line)
        self.assertEqual((python, option, module), ("python", "-m", "simulation"))
        ran = CliRunner().invoke(program.main, [*words, "--json"])
        self.assertEqual(ran.exit_code, 1, ran.output)
        output: dict[str, Any] = json.loads(ran.output.splitlines()[0])
        return output

    # slow: ten simulations of four minutes
    def test_a_printed_failure_can_be_repeated(self) -> None:
        self.patch(rules, "MAX_MEMBERS", rules.MAX_MEMBERS + 1)
        self.patch(program, "globalLogBeginner", Mock())
        result = simulate(Scenario(5, 6, 240.0))
        rule = result.violations[0].rule
        self.assertEqual(rule, "seats within limits")
        looks = count()
        text = failure_report(result, shrunk(result, 7, clock=lambda: float(next(looks))))
        self.assertTrue(text.startswith("seed 5:\n"), text)
        lines = text.splitlines()
        at = lines.index("steps:")
        again, alone = (step.partition(": ")[2] for step in lines[-2:])
        steps = [Step.parse_line(step) for step in lines[at + 1 : -2]]
        self.assertLess(len(steps), result.steps / 2)

        whole = self.replayed(again)
        self.assertEqual((whole["hash"], whole["wrong"][0]["rule"]), (result.hash, rule))

        words, file = alone.rsplit(" ", 1)
        saved = Path(self.enterContext(TemporaryDirectory())) / "kept.steps"
        saved.write_text("".join(f"{step.line()}\n" for step in steps))
        self.assertEqual(file, "seed-5.steps")
        short = self.replayed(f"{words} {saved}")
        self.assertIn(rule, [step["rule"] for step in short["wrong"]])
        self.assertEqual(short["steps"], len(steps))

    def test_without_the_bug_the_seed_breaks_no_rule(self) -> None:
        self.assertEqual(simulate(Scenario(5, 6, 240.0)).violations, [])
