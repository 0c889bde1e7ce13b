from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.mutation import page, records
from tests.mutation.mutants import apply, mutants_of
from tests.mutation.page import Result, read, shown
from tests.mutation.records import Record, names_of
from tests.mutation.table import targets

ROOT = Path(__file__).parents[2]
EXAMPLE = "tests/mutation/example.py"
TESTS = "tests/mutation/example_tests.py"
RUNNER = (sys.executable, "-m", "tests.mutation")
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


def keep_in_a_folder_of_its_own(test: SynchronousTestCase) -> None:
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    test.patch(records, "KEPT", Path(folder.name))


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

    def test_a_field_kept_out_of_the_constructor_is_left_alone(self) -> None:
        found = mutants_of("class A:\n    a: int = field(init=False, kw_only=True)")
        self.assertEqual([one.before for one in found], ["True"])


class RecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        keep_in_a_folder_of_its_own(self)
        self.names = names_of(mutants_of("def f(): return 1 + 1"))

    def test_no_two_have_the_same_name_and_a_line_is_no_part_of_it(self) -> None:
        self.assertEqual(len(set(self.names)), 4)
        moved = mutants_of("\n# prose\ndef f():\n    'Prose.'\n    return 1 + 1")
        self.assertEqual(names_of(moved), self.names)

    def test_a_run_goes_on_where_one_ended(self) -> None:
        Record("a/b.py", self.names).add(self.names[0], "killed")
        Record("a/b.py", self.names).add(self.names[2], "survived")
        found = Record("a/b.py", self.names)
        wanted = {self.names[0]: "killed", self.names[2]: "survived"}
        self.assertEqual(found.verdicts, wanted)
        found.forget()
        self.assertEqual(Record("a/b.py", self.names).verdicts, {})

    def test_it_counts_for_the_same_code_only(self) -> None:
        Record("a/b.py", self.names).add(self.names[0], "killed")
        self.assertEqual(Record("a/b.py", self.names[:-1]).verdicts, {})


class PageTests(SynchronousTestCase):
    def test_what_is_shown_is_read_again(self) -> None:
        fault = ("* Rule.f: `1` → `2`.", "Equivalent: both are `true`.")
        results = [
            Result("svcserver/a/rules.py", 2, 3, 9, (fault,)),
            Result("svcserver/b/rules.py", 1, 1, 1),
        ]
        self.assertEqual(list(read(shown(results)).values()), results)
        self.assertIn("Together 3 of 4: 75.0 %.", shown(results))

    def test_a_record_is_shown_and_a_known_reason_stays(self) -> None:
        keep_in_a_folder_of_its_own(self)
        names = names_of(mutants_of((ROOT / EXAMPLE).read_text()))
        for name in names[:2]:
            Record(EXAMPLE, names).add(name, "survived")
        first = page.recorded(EXAMPLE, {})
        assert first is not None
        self.assertEqual((first.killed, first.tried, first.every), (0, 2, len(names)))
        fault = first.survivors[0][0]
        again = page.recorded(EXAMPLE, {(EXAMPLE, fault): "Why."})
        assert again is not None
        self.assertEqual(again.survivors, ((fault, "Why."), (first.survivors[1][0], page.UNKNOWN)))
        self.assertIsNone(page.recorded("tests/mutation/table.py", {}))


class TableTests(SynchronousTestCase):
    def test_a_new_feature_is_found_by_the_names_of_its_files(self) -> None:
        found = targets()
        guilds = "svcserver/metagame/social/guilds"
        for file in ("rules", "wire", "names"):
            self.assertEqual(found[f"{guilds}/{file}.py"], ["tests/metagame/social/guilds"])
        self.assertEqual(
            found["svcserver/metagame/accounts/login/wire.py"], ["tests/metagame/accounts"]
        )
        self.assertIn("svcserver/chat/session.py", found)
        self.assertNotIn("svcserver/ctl/play/wire.py", found)

    def test_every_file_of_rules_has_tests_that_must_notice(self) -> None:
        for file, tests in targets().items():
            self.assertTrue(tests, file)
            for path in (file, *tests):
                self.assertTrue((ROOT / path).exists(), path)

    def test_the_page_can_be_read(self) -> None:
        self.assertGreater(len(read(page.PAGE.read_text())), 30)


@pytest.mark.live
class RunnerTests(SynchronousTestCase):
    def test_only_a_failing_test_kills(self) -> None:
        done = subprocess.run(
            [*RUNNER, EXAMPLE, "--again", "--verbose", "--tests", TESTS],
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
                ("count * 2", "count // 2"): "killed",
                ("2", "3"): "killed",
                ("8", "9"): "killed",
                ("return min(most, count * 2)", "return None"): "killed",
                ("return double", "return None"): "killed",
            },
            done.stderr,
        )
        self.assertEqual(done.returncode, 1)  # nine of eleven are fewer than the floor wants
