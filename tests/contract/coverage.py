"""Check that every row of the specification is proven by a test that runs.

    python -m tests.contract.coverage           # the faults; make check runs it
    python -m tests.contract.coverage --list    # every row and the tests that prove it

The rows are in ``docs/contributors/specification.md``: the rows of the route tables, and the list
lines that begin with ``- ``. A mark on a test (``tests/support/proves.py``) names the rows that the
test proves. Three things are faults: a row without proof, a mark that names no row, and a mark on a
test that does not run.
"""

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
LONG = "tests/prove/"  # run only by hand, so ``make test`` proves nothing with them


@frozen
class Route:
    """A route of the specification: its method, its path, its access label and its marks."""

    name: str
    access: str
    marks: str = ""


@frozen
class Mark:
    """The text of one ``@proves``, its test, and the reason if the test does not run."""

    says: str
    test: str
    idle: str = ""


def routes(page: str) -> list[Route]:
    """Return the routes that the page specifies."""
    matches = map(_ROUTE.fullmatch, page.splitlines())
    return [Route(*(cell.strip() for cell in match.groups())) for match in matches if match]


def rules(page: str) -> list[str]:
    """Return the rules on the page that are no routes but need a test."""
    return [match[1] for match in map(_RULE.fullmatch, page.splitlines()) if match]


@cache
def marks() -> tuple[Mark, ...]:
    """Return the mark of every ``@proves`` decorator in the tests."""
    return tuple(
        mark
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "proves(" in (source := path.read_text())
        for mark in marks_of(path.relative_to(ROOT).as_posix(), source)
    )


def marks_of(file: str, source: str) -> Iterator[Mark]:
    tree = ast.parse(source)
    machines = {
        node.value.value.id  # the TestCase of a state machine is the test
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "TestCase"
        and isinstance(node.value.value, ast.Name)
    }
    for node in tree.body:
        yield from _marks_on(file, node, machines)
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield from _marks_on(file, inner, set(), _idle(node))


def _marks_on(file: str, node: ast.AST, machines: set[str], idle: str = "") -> Iterator[Mark]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    is_class = isinstance(node, ast.ClassDef)
    is_test = node.name in machines if is_class else node.name.startswith("test")
    if not is_test or not Path(file).name.startswith("test_"):
        idle = "is no test"
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "proves":
            for word in decorator.args:
                says = str(ast.literal_eval(word))
                yield Mark(says, f"{file}::{node.name}", idle or _idle(node))


def _idle(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Return why a test never runs, or an empty string.

    A test never runs if it is marked as skipped or skips in its first statement.
    """
    first = next((statement for statement in node.body if not _is_text(statement)), None)
    texts = [ast.unparse(statement) for statement in node.decorator_list]
    if isinstance(first, ast.Raise | ast.Expr):
        texts.append(ast.unparse(first))
    if isinstance(node, ast.ClassDef):
        texts += [
            ast.unparse(statement) for statement in node.body if isinstance(statement, ast.Assign)
        ]
    skips = re.compile(r"(raise )?([\w.]*\.)?(skip|skipIf|SkipTest|xfail|todo)\b")
    return "is skipped" if any(map(skips.match, texts)) else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def own_routes() -> list[Route]:
    """Return the routes that tests claim to prove, but that the specification does not contain."""
    matches = (OWN.fullmatch(mark.says) for mark in marks())
    return [Route(*(cell or "" for cell in mark.groups())) for mark in matches if mark]


def proofs(page: str, marked: tuple[Mark, ...]) -> dict[str, list[str]]:
    """Return every row with the tests that prove it."""
    by_row = defaultdict(list)
    for mark in marked:
        if not mark.idle and not mark.test.startswith(LONG):
            by_row[mark.says].append(mark.test)
    return {name: by_row[name] for name in [*(route.name for route in routes(page)), *rules(page)]}


def faults(page: str, marked: tuple[Mark, ...]) -> list[str]:
    """Return the faults of the rows and the marks, one line each."""
    names = [*(route.name for route in routes(page)), *rules(page)]
    faults_so_far = [
        f"nothing proves {row!r}" for row, tests in proofs(page, marked).items() if not tests
    ]
    faults_so_far += [f"{row!r} stands twice" for row in sorted(set(names)) if names.count(row) > 1]
    for route in marked:
        if route.idle:
            faults_so_far.append(f"{route.test} {route.idle}, and cannot prove {route.says!r}")
        if route.says not in names and not OWN.fullmatch(route.says):
            near = difflib.get_close_matches(route.says, names, 1, 0.5)
            hint = f"; is it {near[0]!r}?" if near else ""
            hint += OF_OURS if ROUTE.fullmatch(route.says) else ""
            faults_so_far.append(f"{route.test} proves {route.says!r}, which is no row{hint}")
    return faults_so_far


def main() -> None:
    """Print the faults or the table; exit with status 1 if there is a fault."""
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
