"""Checks that every row of the specification is proven by a test that exists.

    python -m tests.contract.coverage

``docs/contributors/spec-coverage.tsv`` lists the rows: ``place <tab> row``. What proves a row is
a mark beside the test (``tests/support/proves.py``) or, as most still are, a third cell with the
tests as pytest names them. A row without proof, a cell that names no test and a mark that names
no row fail ``make check``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "contributors" / "spec-coverage.tsv"
ROUTE = re.compile(r"([A-Z]+) (/\S*) \| (.+)")  # one of ours, with its labels


@frozen
class Mark:
    """What ``@proves`` says, and of which test."""

    says: str
    test: str


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


@cache
def marks() -> tuple[Mark, ...]:
    """Every mark beside a test."""
    return tuple(
        mark
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "proves(" in (source := path.read_text())
        for mark in _marks_of(path.relative_to(ROOT).as_posix(), ast.parse(source))
    )


def _marks_of(file: str, tree: ast.Module) -> Iterator[Mark]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for one in node.decorator_list:
            if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "proves":
                for word in one.args:
                    yield Mark(str(ast.literal_eval(word)), f"{file}::{node.name}")


def own_routes() -> set[str]:
    """What marks say of routes that the specification does not have, as ``rows.tsv`` writes it."""
    said = (ROUTE.fullmatch(one.says) for one in marks())
    return {"\t".join(one.groups()).replace(" | ", "\t") for one in said if one}


def faults(lines: list[str], marked: tuple[Mark, ...]) -> list[str]:
    """What is wrong with the table and the marks; one line each."""
    found = []
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    alone = Counter(cells[1] for cells in rows if len(cells) > 1)
    proven = {one.says for one in marked}
    names: set[str] = set()
    for cells in rows:
        if len(cells) not in (2, 3) or not all(cell.strip() for cell in cells):
            found.append(f"wants place, row and, without a mark, tests: {cells!r}")
            continue
        whole = f"{cells[0]}: {cells[1]}"
        known = {whole, cells[1]} if alone[cells[1]] == 1 else {whole}
        names |= known
        if len(cells) == 2 and not known & proven:
            found.append(f"nothing proves {whole}")
        for test in cells[2].split() if len(cells) == 3 else ():
            file, _, name = test.partition("::")
            if not name or name not in tests_of(file):
                found.append(f"{whole}: there is no {test}")
    for one in marked:
        if one.says not in names and not ROUTE.fullmatch(one.says):
            found.append(f"{one.test} proves {one.says!r}, which is no row, or one of several")
    return found


def main() -> None:
    """Print the faults; exit 1 when there is one."""
    wrong = faults(TABLE.read_text().splitlines(), marks())
    for line in wrong:
        print(f"spec-coverage.tsv: {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
