"""What a transaction uses of the moment is taken inside it: it may begin late and run twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame

HOUSE = Path(svcserver.metagame.__file__).parent
OF_THE_MOMENT = {"now", "_at", "time", "new_id", "token_hex", "token_urlsafe", "new_invite_code"}
WAYS_IN = {"read", "write", "noted"}  # of Ledger and EventLog


def taken_before(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Names that hold the time or an id, used in work that ``function`` hands over."""
    held = {
        name.id
        for one in statements_of(function)
        if isinstance(one, ast.Assign) and asks_the_moment(one.value)
        for target in one.targets
        for name, value in pairs(target, one.value)
        if asks_the_moment(value)
    }
    given = [
        argument
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in WAYS_IN
        for argument in call.args
    ]
    named = {one.id for one in given if isinstance(one, ast.Name)}
    works = [one for one in given if isinstance(one, ast.Lambda)]
    works += [
        one for one in ast.walk(function) if isinstance(one, ast.FunctionDef) and one.name in named
    ]
    for work in works:
        own = {one.id for one in ast.walk(work) if isinstance(one, ast.Name) and is_set(one)}
        for one in ast.walk(work):
            if isinstance(one, ast.Name) and one.id in held - own:
                yield one.lineno, one.id


def is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def statements_of(function: ast.AST) -> Iterator[ast.AST]:
    """What the function does itself, without the functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from statements_of(child)


def pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.Name, ast.AST]]:
    """Each name with what it gets; ``a, b = x, y`` one by one."""
    if isinstance(target, ast.Name):
        yield target, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for one, got in zip(target.elts, values, strict=True):
            yield from pairs(one, got)


def asks_the_moment(value: ast.AST) -> bool:
    names = {
        one.func.attr if isinstance(one.func, ast.Attribute) else getattr(one.func, "id", "")
        for one in ast.walk(value)
        if isinstance(one, ast.Call)
    }
    return bool(names & OF_THE_MOMENT)


class TransactionTests(SynchronousTestCase):
    def test_time_and_ids_are_taken_inside(self) -> None:
        found = [
            f"{file.relative_to(HOUSE)}:{line}: {name}"
            for file in sorted(HOUSE.rglob("*.py"))
            for function in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for line, name in taken_before(function)
        ]
        self.assertEqual(found, [])

    def test_the_search_finds_what_it_is_for(self) -> None:
        text = """
async def save(self, call):
    me, at = call.player, self._at()
    await self.ledger.write(lambda tx: keep(tx, me, at))

async def good(self, call):
    at = self._at()
    def work(tx):
        at = self._at()
        return keep(tx, at)
    await self.log.write(call, at, work)
"""
        found = [list(taken_before(one)) for one in ast.parse(text).body]
        self.assertEqual(found, [[(4, "at")], []])
