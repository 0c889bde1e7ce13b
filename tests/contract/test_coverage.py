"""What is wrong with the table of the specification's rows, and with the marks beside tests."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.contract import coverage
from tests.contract.coverage import ROUTE, TABLE, Mark, faults, marks

HERE = "tests/contract/test_coverage.py"
PRESENCE = "tests/metagame/play/presence/test_presence.py"


class FaultTests(SynchronousTestCase):
    def faults(self, *lines: str, says: str = "") -> list[str]:
        marked = (Mark(says, f"{HERE}::test"),) if says else ()
        return faults(list(lines), marked)

    def test_a_row_is_proven_by_a_mark_or_by_a_test_it_names(self) -> None:
        self.assertEqual(self.faults("# words", "1 §4\tGET /x", says="GET /x"), [])
        self.assertEqual(self.faults(f"1 §4\tGET /x\t{HERE}::FaultTests"), [])

    def test_a_row_that_nothing_proves_and_an_empty_cell_are_faults(self) -> None:
        self.assertEqual(self.faults("1 §4\tGET /x"), ["nothing proves 1 §4: GET /x"])
        for line in ("1 §4", "1 §4\t", "1 §4\tGET /x\t ", "a\tb\tc\td"):
            self.assertTrue(self.faults(line)[0].startswith("wants place, row"), line)

    def test_a_cell_that_names_no_test_is_a_fault(self) -> None:
        for test in (f"{HERE}::Gone", HERE, "tests/gone.py::Tests"):
            [said] = self.faults(f"1 §4\tGET /x\t{test}")
            self.assertIn(test, said)

    def test_a_mark_names_one_row_or_a_route_of_our_own(self) -> None:
        rows = ("1 §4\tGET /x", "1 §9\tGET /x")
        self.assertEqual(len(self.faults(rows[0], says="GET /y")), 2)
        self.assertEqual(len(self.faults(*rows, says="GET /x")), 3)  # which of the two?
        self.assertEqual(self.faults(rows[0], f"{rows[1]}\t{HERE}::HERE", says="1 §4: GET /x"), [])
        self.assertEqual(self.faults(says="GET /y | player"), [])


class MarkTests(SynchronousTestCase):
    def test_the_marks_are_read_from_the_tests(self) -> None:
        found = marks()
        self.assertGreater(len(found), 100)
        beat = {one.test for one in found if one.says == "POST /heartbeat"}
        self.assertTrue(beat)
        self.assertEqual({one.partition("::")[0] for one in beat}, {PRESENCE})
        self.assertIn("FaultTests", coverage.tests_of(HERE))
        self.assertIsNotNone(ROUTE.fullmatch("GET /greeting/:name | optional token | own"))

    def test_there_is_no_fault(self) -> None:
        self.assertEqual(faults(TABLE.read_text().splitlines(), marks()), [])
