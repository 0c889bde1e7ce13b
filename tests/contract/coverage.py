"""Checks ``docs/contributors/spec-coverage.tsv``: every line names tests that exist.

    python -m tests.contract.coverage

A line is ``place <tab> row <tab> tests``, the tests as pytest names them, separated by
blanks. An empty or a dangling line fails ``make check``.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "contributors" / "spec-coverage.tsv"


@cache
def tests_of(file: str) -> frozenset[str]:
    """``Class::test`` and ``test`` names that a file defines, those of its own mixins too."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    found: set[str] = set()
    methods: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            names = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
            for base in node.bases:
                names |= methods.get(getattr(base, "id", ""), set())
            methods[node.name] = names
            found |= {node.name} | {f"{node.name}::{name}" for name in names}
        if isinstance(node, ast.Assign):  # a stateful machine's TestCase
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(found)


def faults() -> list[str]:
    """What is wrong with the table; one line each."""
    found = []
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 3 or not all(cell.strip() for cell in cells):
            found.append(f"line {number}: wants place, row and tests: {line!r}")
            continue
        for test in cells[2].split():
            file, _, name = test.partition("::")
            if not name or name not in tests_of(file):
                found.append(f"line {number}: there is no {test}")
    return found


def main() -> None:
    """Print the faults; exit 1 when there is one."""
    wrong = faults()
    for line in wrong:
        print(f"spec-coverage.tsv: {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
