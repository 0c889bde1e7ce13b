"""What a program prints names pages by their titles: an installation has no folder docs/.

Docstrings are for who reads the source, but for those of commands, which ``--help`` shows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.sources import nodes

ROOT = Path(__file__).parents[2]
SHOWN = (".html", ".js", ".json", ".mako", ".txt")
PAGE = re.compile(r'\bpage "([^"]+)"')


def docstrings(source: str) -> Iterator[ast.AST]:
    """Those that no command shows."""
    for node in nodes(source):
        if isinstance(node, ast.Module | ast.ClassDef) or (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
        ):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr):
                yield first.value


def shown(source: str) -> list[str]:
    """The texts of a module that somebody may see."""
    hidden = set(docstrings(source))
    return [
        node.value
        for node in nodes(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in hidden
    ]


@lru_cache(maxsize=1)
def texts() -> list[tuple[str, str]]:
    """What somebody may see, each with the file that it stands in."""
    return [
        (str(path.relative_to(ROOT)), text)
        for path in sorted((ROOT / "svcserver").rglob("*"))
        if path.suffix in (".py", *SHOWN) and "__pycache__" not in path.parts
        for source in [path.read_text(encoding="utf-8")]
        for text in (shown(source) if path.suffix == ".py" else [source])
    ]


class NamedPagesTests(SynchronousTestCase):
    def test_nothing_points_into_the_folder_of_the_source(self) -> None:
        pointing = [one for one in texts() if re.search(r"docs/(owners|players|contrib)", one[1])]
        self.assertEqual(pointing, [])

    def test_each_page_that_is_named_is_among_those_for_owners(self) -> None:
        pages = (ROOT / "docs" / "owners").glob("*.md")
        titles = {one.read_text().partition("\n")[0].removeprefix("# ") for one in pages}
        named = {title for _, text in texts() for title in PAGE.findall(text)}
        self.assertGreater(len(named), 5)
        self.assertEqual(named - titles, set())

    def test_help_is_looked_at_and_docstrings_are_not(self) -> None:
        source = (
            '"""a"""\nclass A:\n    "b"\ndef f():\n    "c"\n    return "d"\n@g\ndef h():\n    "e"'
        )
        self.assertEqual(sorted(shown(source)), ["d", "e"])
