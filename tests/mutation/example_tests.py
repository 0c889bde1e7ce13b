"""What looks at the example; found by the test of the runner alone."""

from __future__ import annotations

import unittest

from tests.mutation import example


class ExampleTests(unittest.TestCase):
    def test_the_limit_fits(self) -> None:
        self.assertTrue(example.fits(3))
        self.assertFalse(example.fits(4))

    def test_nothing_costs_nothing(self) -> None:
        self.assertEqual(example.price(0), 0)

    def test_double(self) -> None:
        self.assertEqual((example.DOUBLE(2), example.DOUBLE(5)), (4, 8))
