"""The output of game servers as an owner reads it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.console import BEHIND, LAST_LINES, MOST_LINES, PIECE, OutputFile, show
from svcserver.deploy.process import MAX_OUTPUT, Output

SECRET = "UUK_" + "ab" * 24


class OutputFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "city.log"
        self.output = Output(self.path)
        self.addCleanup(self.output.close)
        self.output.begin()

    def after(self, cursor: str = "") -> tuple[list[str], str]:
        part = self.output.file().after(cursor)
        return part["lines"], part["cursor"]

    def test_each_line_is_read_once_when_it_is_whole(self) -> None:
        self.assertEqual(self.after()[0], [])
        self.output.write(b"a\nb\nhal")
        lines, cursor = self.after()
        self.assertEqual(lines, ["a", "b"])
        self.assertEqual(self.after(cursor), ([], cursor))
        self.output.write(b"f\n\n")
        self.assertEqual(self.after(cursor)[0], ["half", ""])

    def test_lines_after_a_new_file_follow_those_of_the_old(self) -> None:
        self.output.write(b"first\n")
        _, cursor = self.after()
        self.output.write(b"x" * (MAX_OUTPUT - 8) + b"\n")
        self.output.write(b"cut\nsecond\n")
        part = self.output.file().after(cursor)
        self.assertEqual((part["lines"], part["fresh"], part["missed"]), (["second"], False, True))
        self.output.write(b"third\n")
        self.assertEqual(self.after(part["cursor"])[0], ["third"])

    def test_foreign_cursors_get_the_last_lines(self) -> None:
        self.output.write(b"".join(b"line %d\n" % number for number in range(9_000)))
        for cursor in (
            "",
            "x",
            "x:1",
            ":",
            "1",
            self.after()[1].split(":")[0] + ":²",
            self.after()[1] + "9" * 30,
        ):
            part = self.output.file().after(cursor)
            self.assertEqual((len(part["lines"]), part["fresh"]), (LAST_LINES, True), cursor)
            self.assertEqual(part["lines"][-1], "line 8999")

    def test_a_slow_reader_continues_near_the_end(self) -> None:
        self.output.write(b"a\n")
        _, cursor = self.after()
        self.output.write(b"line\n" * (BEHIND // 4))
        part = self.output.file().after(cursor)
        self.assertTrue(part["missed"])
        self.assertLessEqual(len(part["lines"]), PIECE // 5)

    def test_a_line_too_long_is_left_out_so_no_part_of_a_key_shows(self) -> None:
        self.output.write(b"x" * (PIECE - 10) + b" UUK_" + b"0f" * 24 + b"\nnext\n")
        lines, cursor = self.after(self.after()[1].split(":")[0] + ":0")
        self.assertEqual(lines, [])
        self.assertTrue(cursor.endswith(f":{PIECE}"))
        self.assertEqual(self.after(cursor)[0], ["next"])

    def test_a_part_has_a_bounded_number_of_lines(self) -> None:
        self.output.write(b"\n" * (PIECE - 1) + b"\n")
        part = self.output.file().after(self.after()[1].split(":")[0] + ":0")
        self.assertEqual((len(part["lines"]), part["missed"]), (MOST_LINES, True))

    def test_no_output_has_no_lines(self) -> None:
        missing = OutputFile(Path("/nowhere"), "s", 0)
        self.assertEqual((missing.last_lines(), missing.after("s:7")["lines"]), ([], []))


class ColourTests(SynchronousTestCase):
    def test_only_colours_stay_of_escape_sequences(self) -> None:
        for sent, shown in (
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
            ("\x1b[2J\x1b[3;4Ha\x1b[?25lb\x1b7", "ab"),
            ("a\x9b31mb\x00\u202ec\r", "a?31mb??c"),
            ("a\tb\x1b", "a    b"),
            ("\x1b[<b onclick=x>m", " onclick=x>m"),
        ):
            self.assertEqual(show(sent.encode()), shown)

    def test_colours_hide_no_secret(self) -> None:
        for sent in (SECRET, SECRET[:9] + "\x1b[31m" + SECRET[9:], "x" * 5_000 + SECRET):
            self.assertNotIn("abababab", show(sent.encode()).replace("\x1b[31m", ""))

    def test_a_line_with_too_many_colours_has_none(self) -> None:
        self.assertEqual(show(b"\x1b[31mx" * 50).count("\x1b"), 50)
        self.assertEqual(show(b"\x1b[31mx" * 51), "x" * 51)

    @given(st.binary(max_size=300))
    def test_any_bytes_become_printable_text(self, data: bytes) -> None:
        shown = show(data.replace(b"\n", b" "))
        self.assertTrue(all(char.isprintable() or char == "\x1b" for char in shown))

    def test_hostile_lines_take_linear_time(self) -> None:
        for line in (b"\x1b[" * 30_000, b"\x1b]" * 30_000, b"\x1b[" + b"1;" * 30_000):
            before = time.process_time()
            show(line)
            self.assertLess(time.process_time() - before, 0.2)
