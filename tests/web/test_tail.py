"""The last log lines, as the dashboard shows them."""

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.dashboard.state import LONGEST, MAX_LINES, LogTail
from tests.support.proves import proves

lines = st.lists(st.text("abc ", max_size=5), max_size=30)


class TailTests(SynchronousTestCase):
    def test_lines_are_also_written_to_the_original_output(self) -> None:
        out = io.StringIO()
        tail = LogTail(out)
        tail.write("one\ntwo\n")
        tail.flush()
        self.assertEqual(out.getvalue(), "one\ntwo\n")
        self.assertEqual(
            (tail.after(0), tail.after(1), tail.after(2)), (["one", "two"], ["two"], [])
        )

    def test_only_the_last_lines_are_kept_and_long_lines_are_cut(self) -> None:
        tail = LogTail()
        for number in range(MAX_LINES + 7):
            tail.write(f"{number}\n")
        tail.write("x" * 10_000 + "\n")
        stored = tail.after(0)
        self.assertEqual((len(stored), stored[0]), (MAX_LINES, "8"))
        self.assertEqual(stored[-1], "x" * LONGEST)

    @proves("GET DashboardEvents")
    def test_a_text_that_looks_like_a_secret_is_replaced(self) -> None:
        tail = LogTail()
        tail.write("key UUK_" + "ab" * 24 + " and ABCD-EFGH-JKMN\n")
        self.assertEqual(tail.after(0), ["key <key> and <redacted>"])

    def test_a_reader_from_before_a_restart_gets_the_current_lines(self) -> None:
        tail = LogTail()
        tail.write("first\n")
        self.assertEqual(tail.after(9_999), [])

    @given(lines, st.integers(0, 40))
    @settings(max_examples=50, deadline=None)
    def test_a_reader_gets_every_line_after_its_position(
        self, written: list[str], number: int
    ) -> None:
        tail = LogTail()
        for line in written:
            tail.write(line + "\n")
        self.assertEqual(tail.after(number), written[number:])
