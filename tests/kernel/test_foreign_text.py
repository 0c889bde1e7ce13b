"""Text from strangers is made harmless wherever it is shown, but can still be recognised."""

import re
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.foreign_text import CELL, LINE, cell, is_plain, shown, visible
from tests.support.nasty import NASTY, unsafe_in

ANY = st.text(st.characters(exclude_categories=()))
LIKELY = st.text(
    st.sampled_from("\\xuU0123456789abcdef \x1b\x9b\n\u202e\u200d\ud800e\u0301a\U000e0041")
)
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def read_back(text: str) -> str:
    return ESCAPE.sub(lambda result: chr(int(result[1] or result[2] or result[3], 16)), text)


class ShownTests(SynchronousTestCase):
    @given(ANY | LIKELY)
    @example(NASTY)
    @example("\\x1b\x1b\\\\x1b\\\x1b")
    def test_shown_text_is_printable_and_can_be_read_back(self, text: str) -> None:
        for line in (shown(text), cell(text)):
            self.assertEqual(unsafe_in(line), "")
            self.assertTrue(line.isprintable())
            self.assertEqual(read_back(line), text)

    @given(ANY | LIKELY)
    def test_shown_text_may_be_made_visible_once_more(self, text: str) -> None:
        self.assertEqual(visible(shown(text)), shown(text))
        self.assertEqual(unsafe_in(visible(text)), "")

    @given(LIKELY)
    def test_no_cell_contains_two_blanks_in_a_row(self, text: str) -> None:
        self.assertNotIn("  ", cell(text))

    def test_long_text_is_cut_and_shows_its_full_length(self) -> None:
        for text in ("a" * 100_000, "\x1b" * 100_000, "\\x1b" * 100_000, "e" + "\u0301" * 100_000):
            for line, most in ((shown(text), LINE), (visible(text), LINE), (cell(text), CELL)):
                self.assertLess(len(line), most + 32)
                self.assertTrue(line.endswith(f"... ({len(text):,} characters)"))

    def test_ordinary_text_stays_as_it_is(self) -> None:
        for text in ("", "Ann_1", "C:\\games\\new", "Zoë Ночь 狩猟 हिन्दी עברית", "50 % \\ off"):
            self.assertEqual(shown(text), text)

    def test_a_few_marks_stay_and_a_pile_of_them_is_escaped(self) -> None:
        self.assertEqual(shown("e\u0301"), "e\u0301")
        self.assertEqual(shown("e" + "\u0301" * 6), "e" + "\u0301" * 4 + "\\u0301" * 2)


class PlainTests(SynchronousTestCase):
    def test_languages_and_emoji_with_joiners_pass(self) -> None:
        for text in (
            "",
            "\u0645\u06cc\u200c\u062e",
            "क्\u200dष",
            "\U0001f468\u200d\U0001f469",
            "e\u0301 狩\u3000",
        ):
            self.assertTrue(is_plain(text), ascii(text))

    def test_control_and_direction_characters_are_refused(self) -> None:
        for (
            char
        ) in "\0\n\r\t\x1b\x7f\x85\x9b\u200b\u200e\u2028\u2029\u202e\u2066\ufeff\ud800\U000e0041":
            self.assertFalse(is_plain(f"a{char}b"), ascii(char))
        self.assertEqual(unicodedata.category("\U000e0041"), "Cf")
