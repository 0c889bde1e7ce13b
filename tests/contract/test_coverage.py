"""The checker finds faulty rows of the specification, and faulty marks on tests."""

from twisted.trial.unittest import SynchronousTestCase

from tests.contract.coverage import Mark, Route, faults, marks_of, routes, rules

TEST = "tests/contract/test_coverage.py::test"
ROWS = """
| route | who may call | marks |
|---|---|---|
| `GET /x` | player | own, body log |
| `GET /y` | none | |

* prose
- a rule: of two words
"""


class RowTests(SynchronousTestCase):
    def test_the_rows_are_read_from_the_page(self) -> None:
        wanted = [Route("GET /x", "player", "own, body log"), Route("GET /y", "none")]
        self.assertEqual(routes(ROWS), wanted)
        self.assertEqual(rules(ROWS), ["a rule: of two words"])


class FaultTests(SynchronousTestCase):
    def faults(self, page: str, *says: str, test: str = TEST, idle: str = "") -> list[str]:
        return faults(page, tuple(Mark(line, test, idle) for line in says))

    def test_a_row_is_proven_by_a_mark(self) -> None:
        self.assertEqual(self.faults(ROWS, "GET /x", "GET /y", "a rule: of two words"), [])
        self.assertEqual(
            self.faults(ROWS, "GET /x"),
            ["nothing proves 'GET /y'", "nothing proves 'a rule: of two words'"],
        )

    def test_a_mark_names_a_row_or_a_route_of_our_own(self) -> None:
        [fault] = self.faults("- a rule", "a rule", "a rume")
        self.assertIn("'a rume', which is no row; is it 'a rule'?", fault)
        self.assertEqual(self.faults("", "GET /y | player"), [])
        [fault] = self.faults("", "GET /y")
        self.assertIn("is no row; a route of our own says who may call", fault)

    def test_a_test_that_does_not_run_proves_nothing(self) -> None:
        self.assertEqual(
            self.faults("- a rule", "a rule", idle="is skipped"),
            ["nothing proves 'a rule'", f"{TEST} is skipped, and cannot prove 'a rule'"],
        )
        self.assertEqual(len(self.faults("- a rule", "a rule", test="tests/prove/test_x.py::y")), 1)

    def test_a_duplicate_row_is_a_fault(self) -> None:
        self.assertEqual(self.faults("- a rule\n- a rule", "a rule"), ["'a rule' stands twice"])


class MarkTests(SynchronousTestCase):
    def test_a_mark_counts_only_beside_a_test_that_runs(self) -> None:
        for source, idle in (
            ("@proves('a')\ndef test_x(): pass", ""),
            ("class XTests:\n    @proves('a')\n    def test_x(self): pass", ""),
            ("@proves('a')\nclass Machine: pass\nTestMachine = Machine.TestCase", ""),
            ("@proves('a')\ndef helper(): pass", "is no test"),
            ("@proves('a')\n@pytest.mark.skip\ndef test_x(): pass", "is skipped"),
            (
                "class XTests:\n    skip = 'later'\n    @proves('a')\n    def test_x(): 0",
                "is skipped",
            ),
        ):
            self.assertEqual([mark.idle for mark in marks_of("tests/test_x.py", source)], [idle])
