"""The limits of announcements and the wording of their countdown."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Malformed
from svcserver.metagame.owner.announcements import rules
from svcserver.metagame.owner.announcements.feature import described
from svcserver.metagame.owner.announcements.rules import (
    announced,
    in_language,
    new_announcement,
)

NOON = 1_790_000_000.0


class RequestTests(SynchronousTestCase):
    def test_a_text_has_1_to_256_characters_without_double_blanks(self) -> None:
        self.assertEqual(new_announcement("  a \n b ", "", "").text, "a b")
        for text in ("x", "x" * 256):
            self.assertEqual(new_announcement(text, "", "").text, text)
        for text in ("", "   ", "x" * 257, "\x07"):
            self.assertRaises(Malformed, new_announcement, text, "", "")

    def test_an_announcement_lasts_an_hour_its_set_time_or_to_the_restart(self) -> None:
        for shown, restart, seconds in (("", "", 3600), ("2h", "", 7200), ("2h", "10m", 600)):
            self.assertEqual(new_announcement("text", shown, restart).shown_s, seconds)
        self.assertEqual(new_announcement("text", "7d", "").shown_s, 604_800)
        self.assertRaises(Malformed, new_announcement, "text", "604801s", "")
        self.assertRaises(Malformed, new_announcement, "text", "", "604801s")


class CountdownTests(SynchronousTestCase):
    def test_a_long_countdown_first_counts_at_half_an_hour(self) -> None:
        announcement = announced(new_announcement("New version", "", "40m"), "Olga", NOON)
        line, mark = rules.due(announcement, None, NOON)
        self.assertEqual(line, "New version Restart in 40 min.")
        self.assertEqual(rules.due(announcement, mark, NOON + 599), (None, mark))
        self.assertEqual(rules.due(announcement, mark, NOON + 600), ("Restart in 30 min.", 1_800))

    def test_two_hours_and_more_are_worded_in_hours(self) -> None:
        for restart, text in (
            ("119m", "119 min"),
            ("120m", "2 h"),
            ("90s", "2 min"),
            ("59s", "59 s"),
        ):
            announcement = announced(new_announcement("x", "", restart), "Olga", NOON)
            self.assertEqual(in_language(announcement, "en", NOON), f"x Restart in {text}.")

    def test_an_announcement_is_described_with_its_times(self) -> None:
        times = {"since": "2026-09-21T14:13:20.000Z", "until": "2026-09-21T14:23:20.000Z"}
        announcement = announced(new_announcement("x", "", "10m"), "Olga", NOON)
        expected = {"text": "x", "by": "Olga", **times}
        self.assertEqual(described(announcement), {**expected, "restartAt": times["until"]})
        without = announced(new_announcement("x", "10m", ""), "Olga", NOON)
        self.assertEqual(described(without), {**expected, "restartAt": None})
        self.assertIsNone(described(None))
