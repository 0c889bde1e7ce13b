"""No file and no function is longer than can be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver
from tests.support.sources import nodes

ROOT = Path(svcserver.__file__).parent
FILE, FUNCTION = 400, 40  # lines
LISTS = ROOT / "db" / "migrations"  # what they create is a list, and never changes again


def long_functions(source: str) -> Iterator[str]:
    """The names of those that are too long."""
    for one in nodes(source):
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (one.end_lineno or 0) - one.lineno >= FUNCTION:
            yield one.name


class SizeTests(SynchronousTestCase):
    def test_files_and_functions_stay_short(self) -> None:
        for path in sorted(ROOT.rglob("*.py")):
            source, place = path.read_text(), str(path.relative_to(ROOT))
            self.assertLessEqual(source.count("\n"), FILE, place)
            if LISTS not in path.parents:
                self.assertEqual([*long_functions(source)], [], place)

    def test_a_long_function_is_found(self) -> None:
        body = "    x = 1\n"
        self.assertEqual([*long_functions("def f():\n" + body * 40)], ["f"])
        self.assertEqual([*long_functions("def f():\n" + body * 39)], [])
