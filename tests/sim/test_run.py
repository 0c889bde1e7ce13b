"""A simulated host: the same seed gives the same run, and today's code breaks no rule."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.sim.run import Wish, simulate
from svcserver.sim.script import Step, script


class RunTests(SynchronousTestCase):
    def test_another_run_in_the_same_process_and_another_seed(self) -> None:
        first, again, other = (simulate(Wish(seed, 3, 120.0)) for seed in (7, 7, 8))
        self.assertEqual(first.hash, again.hash)
        self.assertNotEqual(first.hash, other.hash)
        self.assertEqual([*first.violations, *other.violations], [])


class StepTests(SynchronousTestCase):
    def test_a_step_is_read_as_it_was_written(self) -> None:
        steps = script(3, 4, 600.0, faults=True)
        self.assertEqual([Step.read(one.line()) for one in steps], steps)

    def test_the_script_follows_from_the_seed(self) -> None:
        self.assertEqual(script(3, 4, 600.0), script(3, 4, 600.0))
        self.assertNotEqual(script(3, 4, 600.0), script(4, 4, 600.0))
