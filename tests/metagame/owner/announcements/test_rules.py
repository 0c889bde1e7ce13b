"""What may be announced, and how its countdown is worded."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Malformed
from svcserver.metagame.owner.announcements import rules
from svcserver.metagame.owner.announcements.feature import described
from svcserver.metagame.owner.announcements.rules import announced, in_language, wish

NOON = 1_790_000_000.0


class WishTests(SynchronousTestCase):
    def test_a_text_has_1_to_256_characters_without_double_blanks(self) -> None:
        self.assertEqual(wish("  a \n b ", "", "").text, "a b")
        for text in ("x", "x" * 256):
            self.assertEqual(wish(text, "", "").text, text)
        for text in ("", "   ", "x" * 257, "\x07"):
            self.assertRaises(Malformed, wish, text, "", "")

    def test_it_is_shown_for_an_hour_as_long_as_asked_or_until_the_restart(self) -> None:
        for shown, restart, seconds in (("", "", 3600), ("2h", "", 7200), ("2h", "10m", 600)):
            self.assertEqual(wish("text", shown, restart).shown_s, seconds)
        self.assertEqual(wish("text", "7d", "").shown_s, 604_800)
        self.assertRaises(Malformed, wish, "text", "604801s", "")
        self.assertRaises(Malformed, wish, "text", "", "604801s")


class CountdownTests(SynchronousTestCase):
    def test_half_an_hour_before_is_the_first_mark_of_a_long_countdown(self) -> None:
        one = announced(wish("New version", "", "40m"), "Olga", NOON)
        line, mark = rules.due(one, None, NOON)
        self.assertEqual(line, "New version Restart in 40 min.")
        self.assertEqual(rules.due(one, mark, NOON + 599), (None, mark))
        self.assertEqual(rules.due(one, mark, NOON + 600), ("Restart in 30 min.", 1_800))

    def test_two_hours_and_more_are_said_in_hours(self) -> None:
        for restart, said in (
            ("119m", "119 min"),
            ("120m", "2 h"),
            ("90s", "2 min"),
            ("59s", "59 s"),
        ):
            one = announced(wish("x", "", restart), "Olga", NOON)
            self.assertEqual(in_language(one, "en", NOON), f"x Restart in {said}.")

    def test_it_is_described_with_its_times(self) -> None:
        times = {"since": "2026-09-21T14:13:20.000Z", "until": "2026-09-21T14:23:20.000Z"}
        one = announced(wish("x", "", "10m"), "Olga", NOON)
        said = {"text": "x", "by": "Olga", **times}
        self.assertEqual(described(one), {**said, "restartAt": times["until"]})
        without = announced(wish("x", "10m", ""), "Olga", NOON)
        self.assertEqual(described(without), {**said, "restartAt": None})
        self.assertIsNone(described(None))
