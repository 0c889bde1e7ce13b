"""The launcher's package includes every module that it imports.

This test finds a missing module quickly; only slow tests start the packaged program.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.packaging import recipe
from tests.support.sources import nodes

ROOT = Path(__file__).parents[2]


def packed() -> dict[str, Path]:
    """Return a dict from the name of each module in the package to the module's file."""
    build = recipe("launcher.py")
    whole = ROOT / "svcserver"
    files = [path for name in build.PACKAGES for path in sorted((whole / name).rglob("*.py"))]
    left_out = {whole / name for name in build.LEFT_OUT}
    assert all(path.is_file() for path in left_out)
    included = [whole / "__init__.py", *(path for path in files if path not in left_out)]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in included
    }


def imported(source: str) -> Iterator[tuple[str, ...]]:
    """Yield the possible modules of each import: ``a`` and ``a.b`` for ``from a import b``."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert not node.level
            yield from ((node.module, f"{node.module}.{alias.name}") for alias in node.names)


class PackedTests(SynchronousTestCase):
    def test_packed_modules_import_only_packed_modules(self) -> None:
        modules = packed()
        every = {
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for path in (ROOT / "svcserver").rglob("*.py")
        }
        self.assertGreater(len(modules), 80)
        for name, path in modules.items():
            for meant in imported(path.read_text(encoding="utf-8")):
                missing = {name for name in meant if name in every} - set(modules)
                self.assertEqual(missing, set(), f"{name} imports what the launcher has not")
