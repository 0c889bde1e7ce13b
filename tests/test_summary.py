"""The summary that ``make test`` prints (tests/summary.py)."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.ctl.command import nowhere
from tests.summary import Summary, node_id

HERE = "tests.test_summary"
REPORT = f"""<testsuites><testsuite>
<testcase classname="{HERE}.SummaryTests" name="test_a"/>
<testcase classname="{HERE}" name="test_b[x y]"><failure message="no"/></testcase>
<testcase classname="{HERE}" name="test_b[x y]"><error message="no"/></testcase>
<testcase classname="{HERE}" name="test_c"><skipped message="netns: no&#10;nft"/></testcase>
<testcase name="{HERE}">
<skipped message="collection skipped">('f', 3, 'Skipped: root: why')</skipped></testcase>
</testsuite></testsuites>"""


class SummaryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.report = nowhere(self)
        self.report.write_text(REPORT)
        self.summary = Summary()

    def test_all_parts_are_counted_and_each_skip_has_its_reason(self) -> None:
        self.summary.add("live", 1, self.report)
        self.summary.add("fast", 0, self.report)
        self.assertEqual(
            list(self.summary.lines(125.4)),
            [
                "failed, each alone:",
                "  .venv/bin/python -m pytest 'tests/test_summary.py::test_b[x y]'",
                "skipped:",
                "  tests/test_summary.py: root: why",
                "  tests/test_summary.py::test_c: netns: no nft",
                "make test: 2 passed, 1 failed, 2 skipped in 2 min 5 s",
            ],
        )
        self.assertEqual(self.summary.status, 1)

    def test_a_part_that_died_without_a_report_fails_the_run(self) -> None:
        self.summary.add("alone", 139, Path("/nowhere"))
        self.assertIn("the alone part ended with status 139", self.summary.lines(1))
        self.assertEqual(self.summary.status, 1)

    def test_a_class_of_tests_is_part_of_the_node_id(self) -> None:
        name = node_id(f"{HERE}.SummaryTests", "test_a")
        self.assertEqual(name, "tests/test_summary.py::SummaryTests::test_a")
