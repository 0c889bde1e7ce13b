"""Names that mean one thing everywhere: ``now`` is a time, and no private word names a thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver
from tests.support.sources import nodes

ROOT = Path(svcserver.__file__).parent
# once used here, where the field has a word: throttle, monotonic clock, characters, inventory
PRIVATE = frozenset({"seldom", "steady", "stable", "rack", "bag", "circle"})


def wrong_nows(source: str) -> Iterator[int]:
    """The lines where ``now`` is not epoch seconds but something that tells them."""
    for node in nodes(source):
        match node:
            case ast.AnnAssign(target=ast.Name("now") | ast.Attribute(attr="now"), annotation=kind):
                if "Callable" in ast.unparse(kind):
                    yield node.lineno
            case ast.arg("now", annotation=ast.expr() as kind) if "Callable" in ast.unparse(kind):
                yield node.lineno
            case ast.Call(ast.Name("now")):
                yield node.lineno
            case ast.Call(ast.Attribute(owner, "now")) if ast.unparse(owner) != "datetime":
                yield node.lineno
            case ast.FunctionDef(name="now"):
                marks = [ast.unparse(one) for one in node.decorator_list]
                if "property" not in marks:
                    yield node.lineno


def defined(source: str) -> Iterator[str]:
    """The names of a module's classes and functions."""
    for node in nodes(source):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


class NameTests(SynchronousTestCase):
    def test_what_tells_the_time_is_not_called_now(self) -> None:
        for source in (
            "def f(now: Callable[[], float]): ...",
            "class A:\n    now: Callable[[], float]",
            "at = clock.now()",
            "at = now()",
            "class A:\n    def now(self): ...",
        ):
            self.assertEqual(len(list(wrong_nows(source))), 1, source)
        fine = "class A:\n    @property\n    def now(self) -> float: ...\nnow = datetime.now(UTC)"
        self.assertEqual(list(wrong_nows(fine)), [])
        for path in sorted(ROOT.rglob("*.py")):
            self.assertEqual(list(wrong_nows(path.read_text())), [], path.relative_to(ROOT))

    def test_no_private_word_names_a_module_a_class_or_a_function(self) -> None:
        found = [
            (str(path.relative_to(ROOT)), name)
            for path in sorted(ROOT.rglob("*.py"))
            for name in (path.stem, *defined(path.read_text()))
            if name.lower().strip("_") in PRIVATE
        ]
        self.assertEqual(found, [])
