"""A transaction takes the time and new ids when it runs.

If they were taken earlier, they would be wrong when the transaction runs late or twice.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame
from tests.support.sources import nodes, parsed

PACKAGE = Path(svcserver.metagame.__file__).parent
OF_THE_MOMENT = {"wall_clock", "_at", "seconds", "epoch", "new_id", "token_hex", "new_invite_code"}
WAYS_IN = {
    "read_snapshot",
    "read_for_account",
    "write",
    "noted",
    "write_or_record",
    "transact_with_rules",
    "around",
    "leave",
}
"""Of the ledger, and of what writes to the logs of events and of staff."""


def taken_before(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each variable that gets a time or id before a transaction and is used inside it.

    Each item is the line number of the use, and the variable's name.
    """
    held = {
        name.id
        for statement in statements_of(function)
        if isinstance(statement, ast.Assign) and asks_the_moment(statement.value)
        for target in statement.targets
        for name, value in pairs(target, statement.value)
        if asks_the_moment(value)
    }
    for work in works_of(function):
        own = {
            statement.id
            for statement in ast.walk(work)
            if isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store)
        }
        for statement in ast.walk(work):
            if isinstance(statement, ast.Name) and statement.id in held - own:
                yield statement.lineno, statement.id


def works_of(function: ast.AST) -> Iterator[ast.Lambda | ast.FunctionDef]:
    """Yield the transactions that ``function`` passes to a ledger."""
    within = list(ast.walk(function))
    arguments = [
        argument
        for call in within
        if isinstance(call, ast.Call) and name_of(call) in WAYS_IN
        for argument in call.args
    ]
    yield from (argument for argument in arguments if isinstance(argument, ast.Lambda))
    named = {argument.id for argument in arguments if isinstance(argument, ast.Name)}
    for argument in within:
        if isinstance(argument, ast.FunctionDef) and argument.name in named:
            yield argument


def swallowed(function: ast.AST) -> Iterator[int]:
    """Yield the lines where a transaction catches an error and continues.

    The ledger would then commit what the transaction wrote before the error.
    """
    for work in works_of(function):
        for node in ast.walk(work):
            if isinstance(node, ast.ExceptHandler) and not isinstance(node.body[-1], ast.Raise):
                yield node.lineno


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def statements_of(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a function, without those of nested functions."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from statements_of(child)


def pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.Name, ast.AST]]:
    """Yield each assigned name with its value; ``a, b = x, y`` gives two pairs."""
    if isinstance(target, ast.Name):
        yield target, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for element, got in zip(target.elts, values, strict=True):
            yield from pairs(element, got)


def asks_the_moment(value: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and name_of(node) in OF_THE_MOMENT for node in ast.walk(value)
    )


def functions() -> Iterator[tuple[Path, ast.AST]]:
    """Return every function in the metagame."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in nodes(file.read_text("utf-8")):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file.relative_to(PACKAGE), node


class TransactionTests(SynchronousTestCase):
    def test_time_and_ids_are_taken_inside_the_transaction(self) -> None:
        faults = [
            f"{file}:{line}: {name}"
            for file, function in functions()
            for line, name in taken_before(function)
        ]
        self.assertEqual(faults, [])

    def test_each_name_in_the_searches_is_called_in_the_code(self) -> None:
        called = {
            name_of(node)
            for path in PACKAGE.rglob("*.py")
            for node in nodes(path.read_text())
            if isinstance(node, ast.Call)
        }
        self.assertEqual((OF_THE_MOMENT | WAYS_IN) - called, set(), "renamed, so nothing is found")

    def test_work_that_fails_raises_so_that_all_of_it_is_undone(self) -> None:
        faults = [
            f"{file}:{line}" for file, function in functions() for line in swallowed(function)
        ]
        self.assertEqual(faults, [])

    def test_the_searches_report_the_faults_in_sample_code(self) -> None:
        text = """
async def save(self, call):
    me, at = call.player, self.wall_clock()
    await self.ledger.write(lambda tx: keep(tx, me, at))

async def good(self, call):
    at = self._at()
    def work(tx):
        at = self.wall_clock()
        return keep(tx, at)
    await self.log.write(call, at, work)
"""
        results = [list(taken_before(function)) for function in parsed(text).body]
        self.assertEqual(results, [[(4, "at")], []])
        text = """
async def save(self, call):
    def work(tx):
        try:
            keep(tx)
        except Refusal as why:
            return why
    await self.ledger.write(work)
"""
        self.assertEqual(list(swallowed(parsed(text).body[0])), [6])
