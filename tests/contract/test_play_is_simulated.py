"""Every request of ``svcctl play`` is one that a simulated player sends, too, or says why not."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from twisted.trial.unittest import SynchronousTestCase

import svcserver
from tests.support.sources import parsed

PACKAGE = Path(svcserver.__file__).parent
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
# what the check of the chain asks of the services behind the gateway, with their own secrets
ELSEWHERE = {
    "GET /svc-status": "whether the metagame is one of ours; no player asks",
    "GET /gameservers": "the deploy server's own list; the audit looks into it instead",
    "POST /api/matchmaker/handle-matchmaking-for-player": "the metagame's to the deploy server",
    "GET /status": "the allowlist helper's; the audit looks into the firewall instead",
}


class _Requests(ast.NodeVisitor):
    """Finds calls with a method and a path among their arguments: ``ask("GET", path, ...)``."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.found: set[str] = set()
        self._named: dict[str, list[ast.expr]] = {}

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        before, self._named = self._named, dict(self._named)
        for one in ast.walk(node):
            if isinstance(one, ast.Assign):
                for target in one.targets:
                    self._note(target, one.value)
        self.generic_visit(node)
        self._named = before

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._named.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, its in zip(target.elts, value.elts, strict=True):
                self._note(one, its)

    def visit_Call(self, node: ast.Call) -> None:
        for at, one in enumerate(node.args[:-1]):
            methods = [text for text in self._texts(one) if text in METHODS]
            if methods:
                paths = [text for text in self._texts(node.args[at + 1]) if text.startswith("/")]
                self.found |= {f"{method} {shape(path)}" for method in methods for path in paths}
                break
        self.generic_visit(node)

    def _texts(self, node: ast.expr) -> Iterator[str]:
        """What the expression may be, ``*`` in place of what is known at run time alone."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.IfExp):
            yield from self._texts(node.body)
            yield from self._texts(node.orelse)
        elif isinstance(node, ast.Name):
            if node.id in self._named:
                values = self._named[node.id]
                self._named[node.id] = []  # it may be made of itself
                for value in values:
                    yield from self._texts(value)
                self._named[node.id] = values
            elif isinstance(known := getattr(self.module, node.id, None), str):
                yield known
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from self._joined([node.left, node.right])
        elif isinstance(node, ast.JoinedStr):
            yield from self._joined(node.values)

    def _joined(self, parts: list[ast.expr]) -> Iterator[str]:
        found = [""]
        for part in parts:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            texts = list(self._texts(inner)) or ["*"]
            found = [f"{begun}{text}" for begun in found for text in texts]
        yield from found


def shape(path: str) -> str:
    """Without what follows ``?``; a part of the path that is known at run time is ``*``."""
    return re.sub(r"[^/]*\*[^/]*", "*", path.partition("?")[0])


def requests(folder: str) -> set[str]:
    """All requests that the modules of a folder send, as method and path."""
    found: set[str] = set()
    for file in sorted((PACKAGE / folder).rglob("*.py")):
        name = ".".join(["svcserver", *file.relative_to(PACKAGE).with_suffix("").parts])
        visitor = _Requests(importlib.import_module(name))
        visitor.visit(parsed(file.read_text()))
        found |= visitor.found
    return found


class PlayIsSimulatedTests(SynchronousTestCase):
    def test_simulated_players_send_all_that_play_sends(self) -> None:
        sent, simulated = requests("ctl/play"), requests("sim")
        self.assertGreater(len(sent), 40)
        self.assertEqual(sorted(sent - simulated - set(ELSEWHERE)), [])

    def test_what_is_left_out_is_still_asked_by_play_and_by_no_player(self) -> None:
        self.assertLessEqual(set(ELSEWHERE), requests("ctl/play"))
        self.assertEqual(set(ELSEWHERE) & requests("sim"), set())
