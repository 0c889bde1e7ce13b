"""Shrinking keeps what matters and little else."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.sim.script import script
from svcserver.sim.shrink import fewest


class ShrinkTests(SynchronousTestCase):
    def test_two_steps_that_matter_remain(self) -> None:
        steps = script(1, 4, 1800.0)
        wanted = {steps[10], steps[-7]}
        found = fewest(steps, lambda some: wanted <= set(some), lambda: True)
        self.assertEqual(set(found), wanted)

    def test_it_ends_when_the_time_is_over(self) -> None:
        steps = script(1, 4, 1800.0)
        self.assertEqual(fewest(steps, lambda some: True, lambda: False), steps)
