"""Every transaction that writes declares its isolation; a docs page gives the reasons."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame
from tests.support.sources import nodes, parsed

PACKAGE = Path(svcserver.metagame.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "contributors" / "transactions.md"
TESTS = PACKAGE.parents[1] / "tests"
# each of these passes on the scope of one account
PASSES_ON = {"accounts/data.py", "accounts/eventlog.py"}
WHY = "docs/contributors/transactions.md"
SHARED_WRITER = "_write"  # the method through which some classes write
OF_ONE_ACCOUNT = {"data", "events", "log"}


def writes(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call that writes to a ledger, with the function or method that contains it."""
    holders = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for holder in [tree, *holders]:
        functions = [
            node
            for node in ast.iter_child_nodes(holder)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        by_name = {function.name: handed_over(function) for function in functions}
        shared = by_name.pop(SHARED_WRITER, [])  # attributed to each function that calls it
        for function in functions:
            for call in by_name.get(function.name, []):
                yield function.name, call
            if function.name in by_name and f"self.{SHARED_WRITER}(" in ast.unparse(function):
                yield from ((function.name, call) for call in shared)


def handed_over(function: ast.AST) -> list[ast.Call]:
    """Return the calls inside a function that write to a ledger."""
    return [node for node in ast.walk(function) if isinstance(node, ast.Call) and ledger_of(node)]


def ledger_of(call: ast.Call) -> str:
    """Return the ledger's name if the call is a write, otherwise an empty string."""
    made = call.func
    if not isinstance(made, ast.Attribute) or made.attr not in ("write", "noted"):
        return ""
    name = made.value.attr if isinstance(made.value, ast.Attribute) else ast.unparse(made.value)
    return name if name in {"ledger", "audit", *OF_ONE_ACCOUNT} else ""


def scope_of(call: ast.Call) -> str:
    """Return the call's scope as named in docs/contributors/transactions.md, or ""."""
    text = ast.unparse(call.args[-1]) if len(call.args) > 1 else ""
    if text == "scope" and ledger_of(call) == "audit":
        return "account"  # unless the caller passes another scope
    if text == "ACROSS":
        return "across"
    if ledger_of(call) in OF_ONE_ACCOUNT:
        return "account"
    return "account" if "OneAccount" in text or "_scope" in text else ""


@lru_cache(maxsize=1)
def in_code() -> dict[str, str]:
    """Return the scope of each transaction in the code; the keys are ``folder: method``."""
    scopes = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        place = str(file.relative_to(PACKAGE))
        if place in PASSES_ON:
            continue
        for method, call in writes(parsed(file.read_text("utf-8"))):
            folder = place.removesuffix(".py").removesuffix("/acts").removesuffix("/feature")
            scopes[f"{folder}: {method}"] = scope_of(call)
    return scopes


def on_the_page() -> dict[str, str]:
    """Return each transaction's scope in the page's table."""
    scopes = {}
    for folder, methods, scope in re.findall(
        r"^\| `([\w/]+)` \| ([^|]+) \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE
    ):
        for method in re.findall(r"`(\w+)`", methods):
            scopes[f"{folder}: {method}"] = scope
    return scopes


def marks() -> Iterator[str]:
    """Return every transaction that a test claims to prove (``tests.support.isolates``)."""
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text("utf-8")
        if "@isolates(" not in text:
            continue
        for function in nodes(text):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in function.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "isolates":
                        yield from (ast.literal_eval(act) for act in mark.args)


def across(acts: dict[str, str]) -> set[str]:
    return {act for act, scope in acts.items() if scope == "across"}


class IsolationTests(SynchronousTestCase):
    def test_every_write_names_its_scope(self) -> None:
        silent = [act for act, scope in in_code().items() if not scope]
        self.assertEqual(silent, [], f"say OneAccount(...) or ACROSS; {WHY}")

    def test_the_page_has_a_reason_for_every_act_across_accounts(self) -> None:
        self.assertEqual(across(on_the_page()), across(in_code()), f"rows with a reason: {WHY}")

    def test_every_scope_on_the_page_matches_the_code(self) -> None:
        self.assertLessEqual(on_the_page().items(), in_code().items())

    def test_a_test_proves_each_act_of_the_page_and_names_no_other(self) -> None:
        self.assertEqual(sorted(set(marks())), sorted(on_the_page()), f"@isolates marks: {WHY}")
