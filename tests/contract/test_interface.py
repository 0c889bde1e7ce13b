"""The names on which other programs rely are still those of ``interface.json``.

A new name is recorded with the next release, when no change waits in ``newsfragments`` any more.
The command that records names is in ``RECORD``; run it as well after changing a name on purpose.
"""

import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from attrs import fields
from twisted.trial.unittest import SynchronousTestCase

from docs.variables import SERVICES
from svcserver.allowlist.routes import METHODS
from svcserver.content.routes import PATHS
from svcserver.ctl.main import main
from svcserver.db.tables import METADATA
from svcserver.deploy.routes import Deploy
from svcserver.kernel.counters import Counted
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE, describe
from tests.support.game import Game

LISTS = Path(__file__).parent / "interface.json"
RECORD = ".venv/bin/python -m tests.contract.test_interface > tests/contract/interface.json"
PRODUCT = Path(__file__).parents[2] / "svcserver"
BODIES = (  # of services without an OpenAPI document
    *sorted((PRODUCT / "deploy").glob("*.py")),
    *(PRODUCT / name for name in ("allowlist/routes.py", "allowlist/helper.py")),
    PRODUCT / "content" / "manifest.py",
)
WAITING = PRODUCT.parent / "newsfragments"


def interface(test: SynchronousTestCase) -> dict[str, list[str]]:
    """Return the sorted names of each kind."""
    rows = Game(test, **EVERY_ROUTE).door.rows
    routes = {
        "metagame": [row.name for row in rows],
        "deploy": [row.name for row in Deploy.routes.rows],
        "allowlist": [
            f"{verb} {path.decode()}" for path, verbs in METHODS.items() for verb in verbs
        ],
        "content": [f"GET {path.decode()}" for path in PATHS],
    }
    document = describe(rows, "")
    operations = [method for path in document["paths"].values() for method in path.values()]
    columns = [
        f"{table.name}.{column.name}" for table in METADATA.sorted_tables for column in table.c
    ]
    variables = [
        f"{service} {attribute.metadata['name']}"
        for service, shapes in SERVICES.items()
        for shape in shapes
        for attribute in fields(shape)
    ]
    sources = [path.read_text() for path in sorted(PRODUCT.rglob("*.py"))]
    # formatting a tree is slow
    trees = [ast.parse(source) for source in sources if "Figure(" in source]
    figures = re.findall(r"'(svc_\w+)': Figure\(", "\n".join(map(ast.unparse, trees)))
    names = {
        "routes": (f"{name} {route}" for name, listed in routes.items() for route in listed),
        "operation IDs": (operation["operationId"] for operation in operations),
        "body keys": _properties(document),
        "body keys of other services": _body_keys(BODIES),
        "columns": columns,
        "settings": variables,
        "metrics": [*figures, *(f"svc_*_{kind}" for kind in Counted), "svc_*_request_seconds"],
        "commands": _options(main, "svcctl"),
        "keys of svcctl --json": _printed(sorted((PRODUCT / "ctl").rglob("*.py"))),
    }
    return {kind: sorted({*listed} - {""}) for kind, listed in names.items()}


def _properties(document: Any) -> Iterator[str]:
    """Yield the names of all properties of an OpenAPI document."""
    if isinstance(document, dict):
        yield from document.get("properties", {})
        document = list(document.values())
    for member in document if isinstance(document, list) else ():
        yield from _properties(member)


def _body_keys(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the members of every TypedDict and the camelCase keys of literal dicts."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "TypedDict" in map(ast.unparse, node.bases):
                members = [item for item in node.body if isinstance(item, ast.AnnAssign)]
                yield from (ast.unparse(member.target) for member in members)
            if isinstance(node, ast.Dict):
                values = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                texts = (value for value in values if isinstance(value, str))
                yield from filter(re.compile(r"[a-z][A-Za-z0-9]*").fullmatch, texts)


def _printed(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the keys of every dict that is passed to ``data``.

    The call contains the dict itself, or names a function or variable that contains it.
    """
    functions, calls = defaultdict(list), []
    for path in paths:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                functions[function.name].append(function)
                calls += [(function, node) for node in ast.walk(function) if _is_data(node)]
    for function, call in calls:
        named = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
        parts: list[ast.AST] = [call, *(made for name in named for made in functions[name])]
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and {getattr(node.targets[0], "id", "")} <= named:
                parts.append(node.value)
        for node in (node for part in parts for node in ast.walk(part)):
            if isinstance(node, ast.Dict) and all(
                isinstance(key, ast.Constant) for key in node.keys
            ):
                yield " ".join(ast.literal_eval(key) for key in node.keys if key)


def _options(command: click.Command, name: str) -> Iterator[str]:
    """Yield a command's name with its options, then the same for each of its subcommands."""
    options = [text for parameter in command.params for text in parameter.opts if text[0] == "-"]
    yield " ".join([name, *sorted(options)])
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            yield from _options(below, f"{name} {child}") if below else ()


def _is_data(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "data"


class InterfaceTests(SynchronousTestCase):
    def test_names_that_programs_use_are_unchanged(self) -> None:
        recorded = json.loads(LISTS.read_text())
        is_release = not any(WAITING.glob("*.*.md"))
        changed = []
        for kind, names in interface(self).items():
            added = {*names} - {*recorded[kind]} if is_release else set()
            missing = {*recorded[kind]} - {*names}
            if added or missing:
                changed.append(f"{kind}: new {sorted(added)}, missing {sorted(missing)}")
        if changed:
            self.fail("\n".join([*changed, f"If this is intended, run: {RECORD}"]))


if __name__ == "__main__":
    json.dump(interface(InterfaceTests()), sys.stdout, indent=0)
