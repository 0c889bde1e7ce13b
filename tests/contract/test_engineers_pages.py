"""The commands on the engineers' pages: their targets, modules, options and files exist.

They are not run, as those of the owner's pages are (tests/live/test_owner_pages.py): they are the
test run itself, and benches that take minutes. One page's are (tests/live/test_first_call.py and
test_generated_client.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.pages import Block, blocks, commands, exists

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "contributors").glob("*.md")),
    *sorted((ROOT / "docs" / "players").glob("*.md")),
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def lines(block: Block) -> Iterator[list[str]]:
    """The words of each command, without what follows a ``#`` or a pipe."""
    for line in block.text.replace("\\\n", " ").splitlines():
        yield shlex.split(line.partition("|")[2] or line, comments=True)


def source_of(module: str) -> str:
    """The text of a module, or of a package that is a program."""
    found = find_spec(module)
    assert found is not None and found.origin is not None, module
    path = Path(found.origin)
    files = path.parent.glob("*.py") if path.name == "__init__.py" else (path,)
    return "".join(one.read_text() for one in files)


class EngineersPagesTests(SynchronousTestCase):
    def shell_blocks(self) -> list[Block]:
        return [one for page in PAGES for one in blocks(page) if one.word == "sh"]

    def test_every_block_of_commands_is_marked_as_such(self) -> None:
        for page in PAGES:
            for one in blocks(page):
                if re.search(r"^\s*(svcctl|twistd|make|sudo|\.venv/)", one.text, re.MULTILINE):
                    self.assertEqual(one.word, "sh", f"{one.page}: {one.text}")
        self.assertGreater(len(self.shell_blocks()), 12)

    def test_every_target_of_make_exists(self) -> None:
        named = {words[1] for one in self.shell_blocks() for words in lines(one) if "make" in words}
        self.assertEqual(named - TARGETS, set())
        self.assertIn("test", named)

    def test_every_module_that_is_run_exists_with_its_options_and_files(self) -> None:
        found = 0
        for one in self.shell_blocks():
            for words in lines(one):
                if words[:2] != [".venv/bin/python", "-m"]:
                    continue
                source = source_of(words[2])
                for word in words[3:]:
                    if word.startswith("--"):
                        name = word.removeprefix("--").replace("-", "_")
                        known = f'"{word}"' in source or f"{name}:" in source
                        self.assertTrue(known, f"{one.page}: {words}")
                    elif word.startswith(("tests/", "svcserver/", "docs/", "bench/")):
                        self.assertTrue((ROOT / word).exists(), f"{one.page}: {word}")
                found += 1
        self.assertGreater(found, 8)

    def test_every_command_of_svcctl_exists_with_its_options(self) -> None:
        for one in self.shell_blocks():
            for words in commands(one.text):
                exists(words)
