from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.mutation.mutants import apply, mutants_of
from tests.mutation.table import targets

ROOT = Path(__file__).parents[2]
EXAMPLE = "tests/mutation/example.py"
TESTS = "tests/mutation/example_tests.py"
SOURCE = '''
"""Prose."""
from typing import Protocol

class Book(Protocol):
    def find(self, word: "Text" = "none") -> int: ...

def rule(book: "Book", count: int) -> int:
    """Prose."""
    if not count or count > 2 and count is not None:
        raise ValueError("some words for people", "code")
    book.keep(count)
    book.last = count
    return count + 1
'''


class MutantTests(SynchronousTestCase):
    def test_every_kind_of_fault_and_no_prose(self) -> None:
        found = {(one.before, one.after) for one in mutants_of(SOURCE)}
        test = "not count or (count > 2 and count is not None)"
        self.assertEqual(
            found,
            {
                (test, "not count and (count > 2 and count is not None)"),
                ("not count", "count"),
                ("count > 2 and count is not None", "count > 2 or count is not None"),
                ("count > 2", "count >= 2"),
                ("2", "3"),
                ("count is not None", "count is None"),
                ("raise ValueError('some words for people', 'code')", "pass"),
                ("'code'", "'codeX'"),
                ("book.keep(count)", "pass"),
                ("book.last = count", "pass"),
                ("return count + 1", "return None"),
                ("count + 1", "count - 1"),
                ("1", "2"),
            },
        )

    def test_each_changes_one_thing_and_compiles(self) -> None:
        texts = set()
        for mutant in mutants_of(SOURCE):
            tree = apply(SOURCE, mutant)
            compile(tree, "rule.py", "exec")
            texts.add(compile(tree, "rule.py", "exec"))
        self.assertEqual(len(texts), len(mutants_of(SOURCE)))


class TableTests(SynchronousTestCase):
    def test_every_file_of_rules_has_tests_that_must_notice(self) -> None:
        for file, tests in targets().items():
            self.assertTrue(tests, file)
            for path in (file, *tests):
                self.assertTrue((ROOT / path).exists(), path)

    def test_the_page_tells_of_no_file_that_is_gone(self) -> None:
        page = (ROOT / "docs" / "contributors" / "mutants.md").read_text()
        told = set(re.findall(r"^\| `(svcserver/[^`]+)`", page, re.MULTILINE))
        self.assertEqual(told - set(targets()), set())
        self.assertGreater(len(told), 30)


class RunnerTests(SynchronousTestCase):
    def test_only_a_failing_test_kills(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutation", EXAMPLE, "--verbose", "--tests", TESTS],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        verdicts = {
            tuple(line.split("\t")[3:5]): line.split("\t")[0]
            for line in done.stdout.splitlines()
            if line.startswith(("killed", "survived", "hung"))
        }
        self.assertEqual(
            verdicts,
            {
                ("3", "4"): "killed",
                ("count <= LIMIT", "count < LIMIT"): "killed",
                ("return count <= LIMIT", "return None"): "killed",
                ("return count * 7", "return None"): "killed",
                ("count * 7", "count // 7"): "survived",
                ("7", "8"): "survived",
            },
            done.stderr,
        )
        self.assertEqual(done.returncode, 1)  # four of six are fewer than the floor wants
