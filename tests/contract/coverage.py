"""Checks that every row of the specification is proven by a test that runs.

    python -m tests.contract.coverage           # the faults; make check runs it
    python -m tests.contract.coverage --list    # every row and the tests that prove it

The rows stand in ``docs/contributors/specification.md`` and nowhere else: the tables of routes,
and the lists whose lines begin with ``- ``. What proves a row is a mark beside the test
(``tests/support/proves.py``). A row without proof, a mark that names no row, and a mark where
no test runs are faults.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributors" / "specification.md"
_ROUTE = re.compile(r"\| `([A-Z]+ /\S*)` \| ([^|]+) \| ([^|]*)\|")
_RULE = re.compile(r"- (.+)")
OWN = re.compile(r"([A-Z]+ /\S*) \| ([^|]+)(?: \| (.+))?")  # a mark of a route of our own
ROUTE = re.compile(r"[A-Z]+ /\S*")
OF_OURS = "; a route of our own says who may call: 'GET /greeting/:name | player'"
LONG = "tests/prove/"  # run by hand: whoever runs ``make test`` has proven nothing by them


@frozen
class Route:
    """Method and path, who may call, and the marks of the row."""

    name: str
    access: str
    marks: str = ""


@frozen
class Mark:
    """What ``@proves`` says, of which test, and why that does not run."""

    says: str
    test: str
    idle: str = ""


def routes(page: str) -> list[Route]:
    """The routes that the page specifies."""
    found = map(_ROUTE.fullmatch, page.splitlines())
    return [Route(*(cell.strip() for cell in one.groups())) for one in found if one]


def rules(page: str) -> list[str]:
    """All else that the page wants a test of."""
    return [one[1] for one in map(_RULE.fullmatch, page.splitlines()) if one]


@cache
def marks() -> tuple[Mark, ...]:
    """Every mark beside a test."""
    return tuple(
        mark
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "proves(" in (source := path.read_text())
        for mark in marks_of(path.relative_to(ROOT).as_posix(), source)
    )


def marks_of(file: str, source: str) -> Iterator[Mark]:
    """The marks in one file."""
    tree = ast.parse(source)
    machines = {
        node.value.value.id  # a stateful machine is a test by its TestCase
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "TestCase"
        and isinstance(node.value.value, ast.Name)
    }
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            yield from _marks_on(file, node, ())
            continue
        yield from _marks_on(file, node, machines)
        for inner in node.body:
            yield from _marks_on(file, inner, (), _idle(node))


def _marks_on(file: str, node: ast.AST, machines: object, idle: str = "") -> Iterator[Mark]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    if isinstance(node, ast.ClassDef):
        is_test = isinstance(machines, set) and node.name in machines
    else:
        is_test = node.name.startswith("test")
    if not is_test or not Path(file).name.startswith("test_"):
        idle = "is no test"
    for one in node.decorator_list:
        if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "proves":
            for word in one.args:
                says = str(ast.literal_eval(word))
                yield Mark(says, f"{file}::{node.name}", idle or _idle(node))


def _idle(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Why a test never runs: marked so, or given up in its first statement."""
    first = next((one for one in node.body if not _is_text(one)), None)
    said = [ast.unparse(one) for one in node.decorator_list]
    if isinstance(first, ast.Raise | ast.Expr):
        said.append(ast.unparse(first))
    if isinstance(node, ast.ClassDef):
        said += [ast.unparse(one) for one in node.body if isinstance(one, ast.Assign)]
    skips = re.compile(r"(raise )?([\w.]*\.)?(skip|skipIf|SkipTest|xfail|todo)\b")
    return "is skipped" if any(map(skips.match, said)) else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def own_routes() -> list[Route]:
    """Routes that the specification does not have, as the marks of their tests say them."""
    said = (OWN.fullmatch(one.says) for one in marks())
    return [Route(*(cell or "" for cell in one.groups())) for one in said if one]


def proofs(page: str, marked: tuple[Mark, ...]) -> dict[str, list[str]]:
    """Every row, and the tests that prove it."""
    by_row = defaultdict(list)
    for one in marked:
        if not one.idle and not one.test.startswith(LONG):
            by_row[one.says].append(one.test)
    return {name: by_row[name] for name in [*(one.name for one in routes(page)), *rules(page)]}


def faults(page: str, marked: tuple[Mark, ...]) -> list[str]:
    """What is wrong with the rows and the marks; one line each."""
    names = [*(one.name for one in routes(page)), *rules(page)]
    found = [f"nothing proves {row!r}" for row, tests in proofs(page, marked).items() if not tests]
    found += [f"{row!r} stands twice" for row in sorted(set(names)) if names.count(row) > 1]
    for one in marked:
        if one.idle:
            found.append(f"{one.test} {one.idle}, and cannot prove {one.says!r}")
        if one.says not in names and not OWN.fullmatch(one.says):
            near = difflib.get_close_matches(one.says, names, 1, 0.5)
            hint = f"; is it {near[0]!r}?" if near else ""
            hint += OF_OURS if ROUTE.fullmatch(one.says) else ""
            found.append(f"{one.test} proves {one.says!r}, which is no row{hint}")
    return found


def main() -> None:
    """Print the faults, or the table; exit 1 when there is a fault."""
    page = PAGE.read_text()
    if "--list" in sys.argv:
        for row, tests in proofs(page, marks()).items():
            print(row, *tests, sep="\n    ")
    wrong = faults(page, marks())
    for line in wrong:
        print(f"specification.md: {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
