"""The points at which a simulation can inject rare events; each point has its own name."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver
from svcserver.kernel.buggify import buggify, rare_things


def points() -> Iterator[str]:
    """Yield the name in each call of ``buggify``.

    The name is a constant, or the source code that computes it.
    """
    for path in sorted(Path(svcserver.__file__).parent.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "buggify(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "buggify":
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value
                else:
                    yield ast.unparse(name)


class BuggifyTests(SynchronousTestCase):
    def test_nothing_happens_outside_of_a_simulation(self) -> None:
        self.assertFalse(buggify("kernel: a test"))
        with rare_things(lambda name: name == "kernel: a test"):
            self.assertTrue(buggify("kernel: a test"))
            self.assertFalse(buggify("kernel: another"))
        self.assertFalse(buggify("kernel: a test"))

    def test_fault_point_names_are_computed_before_the_call(self) -> None:
        """Computing a name at each call would cost more than the call."""
        made = [name for name in points() if ": " not in name and name != "mounted.lost_answer"]
        self.assertEqual(made, [])

    def test_each_fault_point_name_is_used_at_one_place(self) -> None:
        self.assertEqual([name for name, count in Counter(points()).items() if count > 1], [])
