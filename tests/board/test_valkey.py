"""The board on a real engine: all that holds in memory, and what several processes add."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from svcserver.board import scripts, valkey
from svcserver.board.board import Sheet
from svcserver.board.kinds import Kind
from svcserver.board.quota import Quota
from svcserver.board.scripts import Script
from svcserver.board.waiting import at_once
from svcserver.kernel.refusals import Missing, Unavailable
from tests.board import test_memory
from tests.board.test_memory import NAMES, READ, SIGNS, Left, Seat
from tests.metagame.social.parties.test_machine import PartyMachine
from tests.support.valkey import EngineBoard

pytestmark = pytest.mark.live


class OnEngine(test_memory.Base):
    def make_live(self) -> EngineBoard:
        live = EngineBoard()
        self.addCleanup(live.close)
        return live


class ActTests(OnEngine, test_memory.ActTests):
    pass


class LifeTests(OnEngine, test_memory.LifeTests):
    pass


class ListTests(OnEngine, test_memory.ListTests):
    pass


class NewsTests(OnEngine, test_memory.NewsTests):
    pass


class Parties(PartyMachine):
    make_live = EngineBoard

    def teardown(self) -> None:
        self.live.close()


PartiesTests = Parties.TestCase
PartiesTests.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


class OtherProcessTests(OnEngine):
    def setUp(self) -> None:
        super().setUp()
        self.other = self.live.another()

    def there(self, work: Any) -> Any:
        return self.successResultOf(self.other.act(work))

    def test_what_one_writes_the_other_reads(self) -> None:
        self.do(lambda sheet: sheet.put(READ, "a", "Ann"))
        self.assertEqual(self.there(lambda sheet: sheet.get(READ, "a")), "Ann")
        self.there(lambda sheet: sheet.drop(READ, "a"))
        self.assertIsNone(self.do(lambda sheet: sheet.get(READ, "a")))

    def test_news_reaches_all_in_one_order(self) -> None:
        heard: dict[str, list[str]] = {"here": [], "there": []}
        self.live.board.listen(Left, lambda news: heard["here"].append(news.who))
        self.other.listen(Left, lambda news: heard["there"].append(news.who))
        for number in range(3):
            self.do(lambda sheet, number=number: sheet.tell(Left(f"here {number}")))
            self.there(lambda sheet, number=number: sheet.tell(Left(f"there {number}")))
        self.do(lambda sheet: sheet.tell(Left("last")))
        self.other.engine.catch_up()
        self.assertEqual(heard["here"], heard["there"])
        self.assertEqual(len(heard["here"]), 7)

    def test_a_quota_is_one_for_all(self) -> None:
        quota = Quota.of("asked", 20, 60.0)
        taken = 0
        for number in range(40):
            do = self.do if number % 2 else self.there
            taken += do(lambda sheet: quota.take(sheet, "ann")) is not None
        self.assertEqual(taken, 20)


class OvertakenTests(OnEngine):
    """Another process acts between the reading and the writing of ours."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.live.another()
        self.runs = 0

    def between(self, work: Any, times: int = 1) -> None:
        """Act so once our work has been run with what it reads."""
        self.runs += 1
        if self.runs <= times:
            self.successResultOf(self.other.act(work))

    def test_it_runs_again_with_what_is_there_now(self) -> None:
        def work(sheet: Sheet) -> str | None:
            found = sheet.get(NAMES, "a")
            self.between(lambda other: other.put(NAMES, "a", f"Bob {self.runs}"), times=3)
            sheet.put(NAMES, "b", f"friend of {found}")
            return found

        self.assertEqual(self.do(work), "Bob 3")
        self.assertEqual(self.do(lambda sheet: sheet.get(NAMES, "b")), "friend of Bob 3")

    def test_without_the_comparison_it_writes_what_is_out_of_date(self) -> None:
        """The sabotage: what the test above rests on."""
        broken = scripts.COMMIT.text.replace("~= expected then", "~= expected and false then")
        self.assertNotEqual(broken, scripts.COMMIT.text)
        script = Script(broken)
        self.live.engine.command("SCRIPT", "LOAD", script.text)
        self.patch(valkey, "COMMIT", script)
        with self.assertRaises(self.failureException):
            self.test_it_runs_again_with_what_is_there_now()

    def test_a_refusal_counts_only_if_what_it_rests_on_was_true_at_one_time(self) -> None:
        """Two loads see one entry before and one after another's act."""
        self.do(lambda sheet: (sheet.put(NAMES, "seat", "x"), sheet.put(NAMES, "x", "free")))

        def move(sheet: Sheet) -> None:
            sheet.put(NAMES, "seat", "y")
            sheet.put(NAMES, "y", "free")
            sheet.drop(NAMES, "x")

        def work(sheet: Sheet) -> str:
            seat = sheet.get(NAMES, "seat")
            if seat is not None:
                self.between(move)
                found = sheet.get(NAMES, seat)
                if found is None:
                    raise Missing("no such seat")
                return found
            return ""

        self.assertEqual(self.do(work), "free")

    def test_a_sign_of_life_is_never_compared(self) -> None:
        before = self.live.board.conflicts

        def work(sheet: Sheet) -> None:
            sheet.get(SIGNS, "a")
            self.between(lambda other: other.put(SIGNS, "a", 2.0), times=9)
            sheet.put(SIGNS, "a", 3.0)

        self.do(work)
        self.assertEqual(self.live.board.conflicts, before)

    def test_a_sign_of_life_is_as_new_as_what_is_read_after_it(self) -> None:
        """Who has just come back and taken a seat is not seen in it with an old sign of life."""
        self.do(lambda sheet: (sheet.put(SIGNS, "a", 1.0), sheet.put(NAMES, "door", "seat")))

        def take(sheet: Sheet) -> None:
            sheet.put(SIGNS, "a", 2.0)
            sheet.put(NAMES, "seat", "a")

        def work(sheet: Sheet) -> tuple[str | None, float | None]:
            door = sheet.get(NAMES, "door")
            heard = sheet.get(SIGNS, "a")
            if door is None:
                return None, None
            self.between(take)
            return sheet.get(NAMES, door), heard

        self.assertEqual(self.do(work), ("a", 2.0))

    def test_who_is_always_overtaken_is_refused_in_the_end(self) -> None:
        def work(sheet: Sheet) -> None:
            sheet.get(NAMES, "a")
            self.between(lambda other: other.put(NAMES, "a", str(self.runs)), times=10_000)
            sheet.put(NAMES, "b", "")

        self.failureResultOf(self.live.board.act(work), Unavailable)

    def test_ids_are_the_same_in_every_run(self) -> None:
        drawn: list[str] = []

        def work(sheet: Sheet) -> None:
            drawn.append(sheet.new_id())
            sheet.get(NAMES, "a")
            self.between(lambda other: other.put(NAMES, "a", "Bob"), times=2)
            sheet.put(NAMES, "b", "")

        self.do(work)
        self.assertGreater(len(drawn), 1)
        self.assertEqual(len(set(drawn)), 1)


class TripTests(OnEngine):
    """How often the engine is asked."""

    def trips(self, work: Any, near: Any = ()) -> int:
        asked: list[object] = []
        run = self.live.engine.run
        self.patch(self.live.engine, "run", lambda *call: (asked.append(call), run(*call))[1])
        self.successResultOf(self.live.board.act(work, near))
        self.patch(self.live.engine, "run", run)
        return len(asked)

    def test_a_reading_that_follows_names_takes_one_when_it_is_done_again(self) -> None:
        self.do(lambda sheet: (sheet.put(NAMES, "a", "b"), sheet.put(NAMES, "b", "c")))

        def work(sheet: Sheet) -> str | None:
            found = sheet.get(NAMES, "a")
            return None if found is None else sheet.get(NAMES, found)

        near = [(NAMES, "a")]
        self.assertEqual(self.trips(work, near), 3)  # two loads, and their comparison
        self.assertEqual(self.trips(work, near), 1)

    def test_a_blind_act_takes_one(self) -> None:
        self.do(lambda sheet: sheet.get(NAMES, "a"))  # the clock is known from then on
        self.assertEqual(self.trips(lambda sheet: sheet.put(SIGNS, "a", sheet.now)), 1)


class ValueTests(OnEngine):
    def test_keys_and_values_may_be_any_text(self) -> None:
        for text in ("", "ä ö\n\r\0", "\ud800", "*", "-", "a" * 100_000):
            self.do(lambda sheet, text=text: sheet.put(NAMES, text, text.replace("\ud800", "")))
            found = at_once(
                self.live.another().act(lambda sheet, text=text: sheet.get(NAMES, text))
            )
            self.assertEqual(found, text.replace("\ud800", ""))

    def test_a_value_changed_elsewhere_is_seen_however_often_it_was_read(self) -> None:
        kind = Kind("seats", Seat)
        other = self.live.another()
        for number in range(5):
            at_once(other.act(lambda sheet, n=number: sheet.put(kind, "a", Seat("ann", n))))
            for _ in range(2):
                found = self.do(lambda sheet: sheet.get(kind, "a"))
                self.assertEqual(found, Seat("ann", number))
