"""The bugs that ``bench.planted`` plants: each is still there to be planted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.planted import PLANTS, Planting


class PlantsTests(SynchronousTestCase):
    def test_each_fits_the_code_of_today(self) -> None:
        for plant in PLANTS:
            found = find_spec(plant.module)
            assert found is not None and found.origin is not None
            text = Path(found.origin).read_text()
            self.assertEqual(text.count(plant.old), 1, plant.name)
            compile(Planting(plant).get_data(found.origin), found.origin, "exec")

    def test_names_tell_them_apart(self) -> None:
        self.assertEqual(len({one.name for one in PLANTS}), len(PLANTS))
