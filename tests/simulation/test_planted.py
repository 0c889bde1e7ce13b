"""Each bug in ``bench.planted`` can still be inserted into the current code."""

import re
from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.planted import PLANTS, Planting


class PlantsTests(SynchronousTestCase):
    def test_each_plant_fits_the_current_code(self) -> None:
        for plant in PLANTS:
            spec = find_spec(plant.module)
            assert spec is not None and spec.origin is not None
            text = Path(spec.origin).read_text()
            self.assertEqual(text.count(plant.old), 1, plant.name)
            compile(Planting(plant).get_data(spec.origin), spec.origin, "exec")

    def test_attributes_in_plants_are_those_of_the_module(self) -> None:
        for plant in PLANTS:
            spec = find_spec(plant.module)
            assert spec is not None and spec.origin is not None
            attribute = re.compile(r"self\.(\w+)")
            there = set(attribute.findall(Path(spec.origin).read_text()))
            self.assertLessEqual(set(attribute.findall(plant.new)), there, plant.name)

    def test_names_of_plants_are_unique(self) -> None:
        self.assertEqual(len({plant.name for plant in PLANTS}), len(PLANTS))
