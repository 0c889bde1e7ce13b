"""How many encounters a character may have, and how long an answer may be."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.achievements.encounters.rules import check_answer, meet

HERS = CharacterId("hers")


class Diary:
    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def has(self, character_id: CharacterId, kind: int, name: str) -> bool:
        return name in self.names

    def count(self, character_id: CharacterId) -> int:
        return len(self.names)

    def add(self, character_id: CharacterId, kind: int, name: str) -> None:
        self.names.append(name)


class MeetTests(SynchronousTestCase):
    def test_the_last_place_is_filled_and_no_more(self) -> None:
        diary = Diary("a")
        meet(diary, HERS, 1, "b", 2)
        self.assertRaises(Conflict, meet, diary, HERS, 1, "c", 2)
        self.assertEqual(diary.names, ["a", "b"])

    def test_who_was_met_before_needs_no_place(self) -> None:
        diary = Diary("a", "b")
        meet(diary, HERS, 1, "a", 2)
        self.assertEqual(diary.names, ["a", "b"])


class AnswerTests(SynchronousTestCase):
    def test_repeated_types_make_no_answer_beyond_the_bound(self) -> None:
        found = {1: ["a", "b"], 2: ["c"]}
        check_answer([1, 1], found, 4)
        self.assertRaises(Malformed, check_answer, [1, 1, 2], found, 4)
        check_answer([2, 2, 3], found, 2)

    def test_each_type_once_is_whatever_there_is(self) -> None:
        check_answer([1, 2], {1: ["a", "b"], 2: ["c"]}, 1)
