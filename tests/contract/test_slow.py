"""A slow test is named unless it says why, and the least of many runs decides."""

from __future__ import annotations

import json
from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

from tests import flaky
from tests.ctl.command import nowhere
from tests.support import slow

TESTS = """
# slow: a whole class of them
class ManyTests:
    def test_one(self): ...


class OtherTests:
    def test_two(self): ...

    # slow: it waits
    # for something
    @mark
    def test_three(self): ...


@mark("a", "b")
# slow: it waits, too
async def test_four(): ...

# slow: of nobody

def test_five(): ...


class InheritedTests(OtherTests): ...
"""


class SlowTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = nowhere(self)
        self.folder.mkdir(exist_ok=True)
        self.file = self.folder / "test_some.py"
        self.file.write_text(TESTS)

    def names(self, **took: float) -> list[str]:
        found = slow.unexplained({f"{self.file}::{one}": took[one] for one in took})
        return [line.partition(" took ")[0].partition("::")[2] for line in found]

    def test_it_says_why_above_itself_or_its_class(self) -> None:
        for name in (
            *("ManyTests::test_one", "OtherTests::test_three", "test_four", "test_four[a-b]"),
            "InheritedTests::test_three",
        ):
            self.assertEqual(self.names(**{name: 60.0}), [], name)
        for name in ("OtherTests::test_two", "test_five", "test_five[a]"):
            self.assertEqual(self.names(**{name: 60.0}), [name])

    def test_the_slowest_comes_first_and_what_is_quick_not_at_all(self) -> None:
        took = {"test_five": 9.0, "OtherTests::test_two": 60.0, "test_five[quick]": slow.SLOW_S}
        self.assertEqual(self.names(**took), ["OtherTests::test_two", "test_five"])

    def test_what_was_made_for_it_counts(self) -> None:
        parts = [SimpleNamespace(nodeid="a", duration=one) for one in (4.0, 1.5, 0.25)]
        self.assertEqual(slow.seconds([*parts, SimpleNamespace(nodeid="no report")]), {"a": 5.75})

    def told(self, *runs: dict[str, object]) -> tuple[list[str], bool]:
        files = [self.folder / f"{number}.json" for number in range(len(runs))]
        for file, run in zip(files, runs, strict=True):
            file.write_text(json.dumps({"passed": 1, "failed": [], "seconds": {}, **run}) + "\n")
        text, well = flaky.told(files)
        return text.splitlines(), well

    def test_the_count_of_failures_goes_by_the_least_of_its_runs(self) -> None:
        name = f"{self.file}::test_five"
        once, always = ({"seconds": {name: one}} for one in (1.0, 60.0))
        self.assertEqual(
            self.told(always, once, always), (["3 runs, 3 times passed, 0 flaky tests"], True)
        )
        lines, well = self.told(always, always)
        self.assertEqual((len(lines), lines[0].startswith(name), well), (2, True, False))

    def test_one_failure_of_many_runs_is_told(self) -> None:
        lines, well = self.told({}, {"failed": ["a"], "passed": 0})
        self.assertEqual(
            lines, ["a failed in 1 of 2 runs", "2 runs, 1 times passed, 1 flaky tests"]
        )
        self.assertFalse(well)

    def test_runs_without_a_test_prove_nothing(self) -> None:
        lines, well = self.told({"passed": 0}, {"passed": 0})
        self.assertEqual((len(lines), well), (1, False))
