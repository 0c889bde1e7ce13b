"""The output of game servers as an owner reads it."""

import os
import tempfile
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.console import (
    BEHIND,
    LAST_LINES,
    MAX_ENDED,
    MOST_LINES,
    PIECE,
    EndedOutputs,
    OutputFile,
    render_coloured,
)
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


class EndedOutputTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.output = Output(self.folder / "city-7777.log")
        self.addCleanup(self.output.close)
        self.output.begin()
        self.ended = EndedOutputs(self.folder)

    def end(self, server_id: str = "c1") -> OutputFile:
        self.ended.store(server_id, self.output.file())
        file = self.ended.find(server_id)
        assert file is not None
        return file

    def test_a_reader_gets_the_lines_before_the_end(self) -> None:
        self.output.write(b"read\n")
        cursor = self.output.file().after("")["cursor"]
        self.output.write(b"fatal: out of memory\nin half a li")
        part = self.end().after(cursor)
        self.assertEqual(part["lines"], ["fatal: out of memory", "in half a li"])
        self.assertEqual((part["fresh"], part["missed"], part["ended"]), (False, False, True))
        self.output.begin()  # for the next game server
        file = self.ended.find("c1")
        assert file is not None
        self.assertEqual(file.after("")["lines"][0], "read")

    def test_the_end_of_a_long_output_is_stored_over_two_files(self) -> None:
        line = b"a line of output %06d\n"
        written = 0
        while self.output.file().start == 0:
            self.output.write(line % written)
            written += 1
        self.output.write(b"the last\n")
        file = self.end()
        self.assertLessEqual(file.path.stat().st_size, PIECE)
        lines = file.after("")["lines"]
        self.assertEqual(len(lines), MOST_LINES)
        self.assertEqual(lines[-2:], [f"a line of output {written - 1:06}", "the last"])
        self.assertEqual(file.path.stat().st_mode & 0o777, 0o600)

    def test_a_cut_line_is_left_out_so_no_part_of_a_key_shows(self) -> None:
        self.output.write(b"x" * 9 + SECRET.encode() + b"y" * (PIECE - 30) + b"\nend\n")
        self.assertEqual(self.end().after("")["lines"], ["end"])

    def test_the_oldest_files_are_deleted(self) -> None:
        self.output.write(b"x\n")
        for number in range(MAX_ENDED + 3):
            file = self.end(f"h{number}")
            os.utime(file.path, (number, number))
        self.assertEqual(len(self.ended.ids()), MAX_ENDED)
        self.assertIsNone(self.ended.find("h1"))
        self.assertTrue((self.folder / "city-7777.log").exists())
        self.assertIsNone(self.ended.find("*"))

    def test_no_output_and_no_folder_store_nothing(self) -> None:
        self.ended.store("c1", self.output.file())
        EndedOutputs(None).store("c1", self.output.file())
        self.assertEqual(self.ended.ids(), set())
        self.output.write(b"x\n")
        self.ended.store("a/b", self.output.file())  # there is no such folder
        self.assertEqual(self.ended.ids(), set())


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
            self.assertEqual(render_coloured(sent.encode()), shown)

    def test_colours_hide_no_secret(self) -> None:
        for sent in (SECRET, SECRET[:9] + "\x1b[31m" + SECRET[9:], "x" * 5_000 + SECRET):
            self.assertNotIn("abababab", render_coloured(sent.encode()).replace("\x1b[31m", ""))

    def test_a_line_with_too_many_colours_has_none(self) -> None:
        self.assertEqual(render_coloured(b"\x1b[31mx" * 50).count("\x1b"), 50)
        self.assertEqual(render_coloured(b"\x1b[31mx" * 51), "x" * 51)

    @given(st.binary(max_size=300))
    def test_any_bytes_become_printable_text(self, data: bytes) -> None:
        shown = render_coloured(data.replace(b"\n", b" "))
        self.assertTrue(all(char.isprintable() or char == "\x1b" for char in shown))

    def test_hostile_lines_take_linear_time(self) -> None:
        for line in (b"\x1b[" * 30_000, b"\x1b]" * 30_000, b"\x1b[" + b"1;" * 30_000):
            before = time.process_time()
            render_coloured(line)
            self.assertLess(time.process_time() - before, 0.2)
