"""Where is X? has one answer in every feature: rows stand in routes, shapes of bodies in wire."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver
from tests.support.sources import nodes, parsed

ROOT = Path(svcserver.__file__).parent
SHAPING = {"spelled", "sent_as"}  # what gives a body's fields their names
WHERE = {"a row": "routes", "a shape": "wire"}


def kinds(source: str) -> Iterator[tuple[str, str]]:
    """Each row and each shape in a module, with the name of the method or class."""
    for one in nodes(source):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_called(mark) == "row" for mark in one.decorator_list):
                yield "a row", one.name
        elif isinstance(one, ast.ClassDef) and _is_shape(one):
            yield "a shape", one.name


def _is_shape(one: ast.ClassDef) -> bool:
    calls = {_called(call) for call in ast.walk(one) if isinstance(call, ast.Call)}
    bases = {ast.unparse(base).rpartition(".")[2] for base in one.bases}
    return bool(calls & SHAPING) or "TypedDict" in bases


def _called(node: ast.AST) -> str:
    """The last name of what is called; empty for what is no call."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def out_of_place(name: str, found: Iterable[tuple[str, str]]) -> list[str]:
    """What stands in a module of that name, and belongs elsewhere."""
    return [
        f"{what}, {which}: belongs in {WHERE[what]}.py"
        for what, which in found
        if name != WHERE[what] and not name.endswith(f"_{WHERE[what]}")
    ]


class PlaceTests(SynchronousTestCase):
    def test_what_stands_elsewhere_is_found(self) -> None:
        row = "class A:\n    @routes.row('GET', '/a')\n    async def a(self): ..."
        for shape in (
            "@spelled(pascal_case)\n@frozen\nclass A: ...",
            "class A(TypedDict): ...",
            "class A(typing.TypedDict, total=False): ...",
            "@frozen\nclass A:\n    name: str = field(metadata=sent_as('Name'))",
        ):
            self.assertEqual(
                out_of_place("rules", kinds(shape)), ["a shape, A: belongs in wire.py"]
            )
            self.assertEqual(out_of_place("management_wire", kinds(shape)), [])
        self.assertEqual(out_of_place("pages", kinds(row)), ["a row, a: belongs in routes.py"])
        self.assertEqual(out_of_place("wire", kinds(row)), ["a row, a: belongs in routes.py"])
        for name in ("routes", "live_routes"):
            self.assertEqual(out_of_place(name, kinds(row)), [])

    def test_every_row_stands_in_routes_and_every_shape_of_the_game_in_wire(self) -> None:
        found, seen = [], 0
        for file in sorted(ROOT.rglob("*.py")):
            place, held = file.relative_to(ROOT).as_posix(), [*kinds(file.read_text("utf-8"))]
            seen += len(held)
            found += [
                f"{place}: {one}"
                for one in out_of_place(file.stem, held)
                if one.startswith("a row") or place.startswith("metagame/")
            ]
        self.assertEqual(found, [])
        self.assertGreater(seen, 400)


SHARED = {"access", "role", "when", "body_log", "bad_json", "quiet"}  # marks that rows often share


def repeated(tree: ast.AST) -> Iterator[str]:
    """Each mark that every row of a class bears, where two or more do: ``Routes`` takes it once."""
    for one in ast.walk(tree):
        if isinstance(one, ast.ClassDef):
            rows = [
                {(word.arg, ast.unparse(word.value)) for word in mark.keywords}
                for method in one.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                for mark in method.decorator_list
                if isinstance(mark, ast.Call) and _called(mark) == "row"
            ]
            if len(rows) > 1:
                said = sorted(f"{name}" for name, _ in set.intersection(*rows) if name in SHARED)
                yield from (f"{one.name}: {name}" for name in said)


class MarkTests(SynchronousTestCase):
    def test_a_mark_of_all_rows_is_found(self) -> None:
        row = "    @routes.row('GET', '/a', access={}, body=A)\n    async def a(self): ...\n"
        same = "class A:\n" + row.format("X") * 2
        self.assertEqual(list(repeated(ast.parse(same))), ["A: access"])
        for other in (
            "class A:\n" + row.format("X"),
            "class A:\n" + row.format("X") + row.format("Y"),
        ):
            self.assertEqual(list(repeated(ast.parse(other))), [])

    def test_a_mark_of_all_rows_of_a_class_stands_once(self) -> None:
        found = [
            f"{file.name} {one}"
            for file in sorted(ROOT.rglob("*routes.py"))
            for one in repeated(parsed(file.read_text("utf-8")))
        ]
        self.assertEqual(found, [])


# what decides: who may do what, what is refused, and what the audit log says of it
DECIDING = {
    "svcserver.metagame.accounts.audit",
    "svcserver.metagame.accounts.recorded",
    "svcserver.metagame.access.acting",
    "svcserver.kernel.refusals",
}
STORES_THAT_REFUSE = {
    "metagame/belongings/shop/store.py": "words the refusals of the inventory's rules for the shop",
    "metagame/owner/passports/store.py": "asks while it reads: what is too large is never read",
}


def decided(tree: ast.AST) -> Iterator[str]:
    """What a store must leave to acts and rules: audit rows, roles and refusals."""
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and one.module is not None:
            named = {one.module, *(f"{one.module}.{name.name}" for name in one.names)}
            yield from (f"imports {name}" for name in sorted(named & DECIDING))
        elif isinstance(one, ast.Import):
            yield from (f"imports {name.name}" for name in one.names if name.name in DECIDING)
        elif isinstance(one, ast.Compare):
            sides = [one.left, *one.comparators]
            if any(isinstance(side, ast.Attribute) and side.attr == "role" for side in sides):
                yield f"compares {ast.unparse(one)}"
        elif isinstance(one, ast.Call) and _called(one).startswith("check_"):
            yield f"calls {_called(one)}"


class StoreTests(SynchronousTestCase):
    def test_what_decides_in_a_store_is_found(self) -> None:
        for line in (
            "from svcserver.metagame.accounts.audit import Act",
            "from svcserver.metagame.accounts import audit",
            "import svcserver.kernel.refusals",
            "from svcserver.kernel.refusals import Missing",
            "staff.role < Role.OWNER",
            "rules.check_owner(staff)",
        ):
            self.assertEqual(len(list(decided(ast.parse(line)))), 1, line)
        for line in ("from svcserver.kernel.roles import Role", "role is Role.OWNER", "row.role"):
            self.assertEqual(list(decided(ast.parse(line))), [], line)

    def test_a_store_keeps_and_does_not_decide(self) -> None:
        found = {
            place: said
            for file in sorted((ROOT / "metagame").rglob("store.py"))
            if (said := [*decided(parsed(file.read_text("utf-8")))])
            for place in [file.relative_to(ROOT).as_posix()]
        }
        self.assertEqual(found.keys(), STORES_THAT_REFUSE.keys(), found)


CAMEL_CASE = re.compile(r"[a-z][a-z0-9]*([A-Z][a-z0-9]*)+\Z")
ANYTHING = re.compile(r"(dict|Mapping)\[\w+, (Any|object)\]\Z")


def wired(tree: ast.AST) -> Iterator[str]:
    """The keys of bodies in rules, and mappings of anything, which only a body can be."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Constant) and CAMEL_CASE.match(text := str(one.value)):
            yield f"the key {text}"
        elif isinstance(one, ast.Subscript) and ANYTHING.match(ast.unparse(one)):
            yield f"the type {ast.unparse(one)}"


class RuleTests(SynchronousTestCase):
    def test_the_shapes_of_bodies_are_found(self) -> None:
        for line in ('{"restartAt": 1}', "x: dict[str, Any]", "x: list[Mapping[str, object]]"):
            self.assertEqual(len(list(wired(ast.parse(line)))), 1, line)
        for line in ('"restart"', '"A text"', "x: dict[str, int]", "x: dict[str, Track]"):
            self.assertEqual(list(wired(ast.parse(line))), [], line)

    def test_rules_know_no_key_and_no_body(self) -> None:
        found = {
            place: said
            for file in sorted((ROOT / "metagame").rglob("rules.py"))
            if (said := [*wired(parsed(file.read_text("utf-8")))])
            for place in [file.relative_to(ROOT).as_posix()]
        }
        self.assertEqual(found, {})


TABLES_BESIDE_STORES = {  # what a group of features shares is whole, and stands in one file
    "metagame/accounts/audit.py",
    "metagame/accounts/dashboard_access.py",
    "metagame/accounts/deleted.py",
    "metagame/accounts/eventlog.py",
    "metagame/accounts/networks.py",
    "metagame/accounts/sanctions.py",
    "metagame/accounts/signing.py",
    "metagame/owner/passports/hunts.py",  # which matchmaking's news writes and no route of its own
}


def tables(tree: ast.AST) -> int:
    """How many tables a module makes on ``METADATA``."""
    return sum(
        _called(one) == "Table" and any(ast.unparse(sent) == "METADATA" for sent in one.args)
        for one in ast.walk(tree)
        if isinstance(one, ast.Call)
    )


class TableTests(SynchronousTestCase):
    def test_a_table_is_found(self) -> None:
        self.assertEqual(tables(ast.parse("A = Table('a', METADATA, Column('b'))")), 1)
        self.assertEqual(tables(ast.parse("A = Table('NAME', 'STATE')")), 0)

    def test_tables_stand_in_stores_and_in_what_a_wing_shares(self) -> None:
        made = {
            file.relative_to(ROOT).as_posix(): count
            for file in sorted((ROOT / "metagame").rglob("*.py"))
            if (count := tables(parsed(file.read_text("utf-8"))))
        }
        beside = {place for place in made if not place.endswith("/store.py")}
        self.assertEqual(beside, TABLES_BESIDE_STORES)
        self.assertGreater(sum(made.values()), 40)


MOST_STATEMENTS = 6  # a body or a guard, one act, an answer; what decides more is an act
LONGER_ROWS = {
    "deploy/routes.py: hand_out": "two failures of a launch are answered in bodies of their own",
}


def long_rows(tree: ast.AST) -> Iterator[str]:
    """Each method of a row with more statements than ``MOST_STATEMENTS``, nested ones too."""
    for one in ast.walk(tree):
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any(_called(mark) == "row" for mark in one.decorator_list):
            body = one.body[ast.get_docstring(one) is not None :]
            held = sum(isinstance(part, ast.stmt) for line in body for part in ast.walk(line))
            if held > MOST_STATEMENTS:
                yield one.name


class LengthTests(SynchronousTestCase):
    def test_a_row_that_decides_is_found(self) -> None:
        row = "@routes.row('GET', '/a')\nasync def a(self):\n    'Says.'\n"
        for lines, found in (
            ("    a = 1\n" * MOST_STATEMENTS, []),
            ("    a = 1\n" * (MOST_STATEMENTS + 1), ["a"]),
            ("    if a:\n" + "        a = 1\n" * MOST_STATEMENTS, ["a"]),
        ):
            self.assertEqual(list(long_rows(ast.parse(row + lines))), found)
        self.assertEqual(list(long_rows(ast.parse("def a():\n" + "    a = 1\n" * 9))), [])

    def test_a_row_parses_acts_and_answers(self) -> None:
        found = {
            f"{file.relative_to(ROOT).as_posix()}: {one}"
            for file in sorted(ROOT.rglob("*routes.py"))
            for one in long_rows(parsed(file.read_text("utf-8")))
        }
        self.assertEqual(found, LONGER_ROWS.keys())
