"""The texts for numbers and for a host's replies."""

from typing import Any

from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.sending import fingerprint_words
from svcserver.kernel import json
from svcserver.launcher import words
from svcserver.launcher.host_status import (
    picture_kind,
    read_branding,
    read_hunter,
    read_news,
    read_status,
)
from tests.launcher.any_json import ANY_JSON


class WordTests(SynchronousTestCase):
    def test_fingerprint_words_differ_for_every_byte(self) -> None:
        every = {fingerprint_words(f"{byte:02x}" * 32).split()[0] for byte in range(256)}
        self.assertEqual(len(every), 256)
        self.assertEqual(len(fingerprint_words("0a" * 32).split()), 8)

    def test_amounts_and_times_are_formatted(self) -> None:
        amounts = [words.amount(size) for size in (999, 12_300, 1_234_567, 10_893_512_875, 10**13)]
        self.assertEqual(amounts, ["999 bytes", "12 KB", "1.2 MB", "10.9 GB", "10000.0 GB"])
        self.assertEqual(
            [words.duration(x) for x in (0.2, 40, 99.4, 300, 5_999, 9_000)],
            ["one second", "40 seconds", "99 seconds", "5 minutes", "100 minutes", "2.5 hours"],
        )
        self.assertEqual(words.pace(0.5, None), "")
        self.assertEqual(words.pace(2_500_000, None), "2.5 MB a second")
        self.assertEqual(words.pace(2_500_000, 240), "2.5 MB a second, 4 minutes left")

    def test_hunter_is_described_in_one_line(self) -> None:
        self.assertEqual(
            words.profile("Bo_1", 50, ["Ranger", "Cy", "Di"], 12, 1, 2),
            "Bo_1 (level 50) plays Ranger, Cy and Di. 12 ranks of mastery, 1 unlock and 2 friends.",
        )
        self.assertEqual(
            words.profile("Bo_1", 0, [], 0, 0, 1),
            "Bo_1 is new here. No ranks of mastery, no unlocks and 1 friend.",
        )
        data = {
            "username": "Bo_1",
            "characters": [{"name": "Ranger"}, {"name": 7}],
            "tracks": [
                {"id": "MasteryTrack_Axe", "rank": 2},
                {"id": "MasteryTrack_Bow", "rank": -4},
                {"id": "MasteryTrack_PlayerLevel", "rank": 7},
                {"id": "season09b", "rank": 30},
            ],
            "entitlements": {"a": 1},
            "friends": ["Cy", 9],
        }
        many = words.profile("Bo_1", 0, ["A", "B", "C", "D", "E"], 0, 0, 0)
        self.assertIn("Bo_1 plays A, B, C and 2 more.", many)
        expected = "Bo_1 (level 7) plays Ranger. 2 ranks of mastery, no unlocks and 2 friends."
        self.assertEqual(read_hunter(data)["profile"], expected)


class NewsTests(SynchronousTestCase):
    @given(ANY_JSON)
    def test_any_reply_is_shown_as_text_or_left_out(self, data: Any) -> None:
        for item in read_news(data):
            self.assertTrue(all(isinstance(value, str) for value in item.values()))
        read_branding(data)
        if isinstance(data, dict):
            read_status(data)

    def test_hostile_reply_is_limited_in_number_and_length(self) -> None:
        long = "x" * 10**6
        many = [dict.fromkeys(("name", "title", "body", "id", "where", "date"), long)] * 1000
        status = read_status({"name": long, "players": many, "playersOnline": 10**17})
        self.assertEqual((len(status["players"]), status["online"]), (500, 0))
        hunter = read_hunter(
            {
                "guild": long,
                "username": long,
                "friends": [long] * 1000,
                "tracks": many,
                "hunts": many,
                "characters": [{"name": long, "saves": [{"savedAt": 1}] * 1000}] * 1000,
            }
        )
        counted = {name: len(value) for name, value in hunter.items()}
        self.assertEqual(
            counted,
            {"profile": 330, "guild": 64, "huntPass": 0, "tracks": 64, "hunts": 10,
             "characters": 20, "friends": 500},
        )  # fmt: skip
        self.assertEqual(len(hunter["characters"][0]["saves"]), 10)
        news = read_news({"items": many})
        self.assertEqual((len(news), len(news[0]["body"])), (20, 4000))
        self.assertLess(len(json.dump([status, hunter, news])), 300_000)

    def test_hunt_pass_is_shown_with_its_rank(self) -> None:
        track = {"id": "season09b", "rank": 12, "maxRank": 50}
        shown = read_hunter({"huntPass": "season09b", "tracks": [track]})["huntPass"]
        self.assertEqual(shown, "Season 9b, 12 of 50")
        self.assertEqual(read_hunter({"huntPass": "season09b"})["huntPass"], "Season 9b")
        self.assertEqual(read_hunter({"tracks": [{"rank": 1}]})["huntPass"], "")

    def test_text_cannot_control_a_terminal(self) -> None:
        sly = "a\x1b[2Jb\x07c\u202ed\r\n\x9be é"
        [item] = read_news({"items": [{"title": sly, "body": sly}]})
        self.assertEqual(item["title"], "a [2Jb c d   e é")
        self.assertEqual(item["body"], "a [2Jb c d \n e é")

    def test_only_a_colour_and_the_hosts_pictures_are_used(self) -> None:
        data = {
            "accent": "red;x",
            "backgrounds": [
                {"url": "https://elsewhere.example/a.png"},
                {"url": "/content/v1/branding/../x.png"},
                {"url": "/content/v1/branding/a.png", "credit": "Olga"},
            ],
        }
        self.assertEqual(read_branding(data), ("", [("/content/v1/branding/a.png", "Olga")]))
        self.assertEqual(picture_kind(b"<svg onload=x>"), "")
