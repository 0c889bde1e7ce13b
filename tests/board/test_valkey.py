"""The board on a real engine: all that holds in memory, and what several processes add."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from svcserver.board import scripts, valkey
from svcserver.board.board import BoardTransaction
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
        return self.successResultOf(self.other.transact(work))

    def test_what_one_writes_the_other_reads(self) -> None:
        self.do(lambda transaction: transaction.put(READ, "a", "Ann"))
        self.assertEqual(self.there(lambda transaction: transaction.get(READ, "a")), "Ann")
        self.there(lambda transaction: transaction.drop(READ, "a"))
        self.assertIsNone(self.do(lambda transaction: transaction.get(READ, "a")))

    def test_news_reaches_all_in_one_order(self) -> None:
        heard: dict[str, list[str]] = {"here": [], "there": []}
        self.live.board.listen(Left, lambda news: heard["here"].append(news.who))
        self.other.listen(Left, lambda news: heard["there"].append(news.who))
        for number in range(3):
            self.do(lambda transaction, number=number: transaction.publish(Left(f"here {number}")))
            self.there(
                lambda transaction, number=number: transaction.publish(Left(f"there {number}"))
            )
        self.do(lambda transaction: transaction.publish(Left("last")))
        self.other.engine.catch_up()
        self.assertEqual(heard["here"], heard["there"])
        self.assertEqual(len(heard["here"]), 7)

    def test_a_quota_is_one_for_all(self) -> None:
        quota = Quota.of("asked", 20, 60.0)
        taken = 0
        for number in range(40):
            do = self.do if number % 2 else self.there
            taken += do(lambda transaction: quota.take(transaction, "ann")) is not None
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
            self.successResultOf(self.other.transact(work))

    def test_it_runs_again_with_what_is_there_now(self) -> None:
        def work(transaction: BoardTransaction) -> str | None:
            found = transaction.get(NAMES, "a")
            self.between(lambda other: other.put(NAMES, "a", f"Bob {self.runs}"), times=3)
            transaction.put(NAMES, "b", f"friend of {found}")
            return found

        self.assertEqual(self.do(work), "Bob 3")
        self.assertEqual(
            self.do(lambda transaction: transaction.get(NAMES, "b")), "friend of Bob 3"
        )

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
        self.do(
            lambda transaction: (
                transaction.put(NAMES, "seat", "x"),
                transaction.put(NAMES, "x", "free"),
            )
        )

        def move(transaction: BoardTransaction) -> None:
            transaction.put(NAMES, "seat", "y")
            transaction.put(NAMES, "y", "free")
            transaction.drop(NAMES, "x")

        def work(transaction: BoardTransaction) -> str:
            seat = transaction.get(NAMES, "seat")
            if seat is not None:
                self.between(move)
                found = transaction.get(NAMES, seat)
                if found is None:
                    raise Missing("no such seat")
                return found
            return ""

        self.assertEqual(self.do(work), "free")

    def test_a_sign_of_life_is_never_compared(self) -> None:
        before = self.live.board.conflicts

        def work(transaction: BoardTransaction) -> None:
            transaction.get(SIGNS, "a")
            self.between(lambda other: other.put(SIGNS, "a", 2.0), times=9)
            transaction.put(SIGNS, "a", 3.0)

        self.do(work)
        self.assertEqual(self.live.board.conflicts, before)

    def test_a_sign_of_life_is_as_new_as_what_is_read_after_it(self) -> None:
        """Who has just come back and taken a seat is not seen in it with an old sign of life."""
        self.do(
            lambda transaction: (
                transaction.put(SIGNS, "a", 1.0),
                transaction.put(NAMES, "door", "seat"),
            )
        )

        def take(transaction: BoardTransaction) -> None:
            transaction.put(SIGNS, "a", 2.0)
            transaction.put(NAMES, "seat", "a")

        def work(transaction: BoardTransaction) -> tuple[str | None, float | None]:
            door = transaction.get(NAMES, "door")
            heard = transaction.get(SIGNS, "a")
            if door is None:
                return None, None
            self.between(take)
            return transaction.get(NAMES, door), heard

        self.assertEqual(self.do(work), ("a", 2.0))

    def test_who_is_always_overtaken_is_refused_in_the_end(self) -> None:
        def work(transaction: BoardTransaction) -> None:
            transaction.get(NAMES, "a")
            self.between(lambda other: other.put(NAMES, "a", str(self.runs)), times=10_000)
            transaction.put(NAMES, "b", "")

        self.failureResultOf(self.live.board.transact(work), Unavailable)

    def test_ids_are_the_same_in_every_run(self) -> None:
        drawn: list[str] = []

        def work(transaction: BoardTransaction) -> None:
            drawn.append(transaction.new_id())
            transaction.get(NAMES, "a")
            self.between(lambda other: other.put(NAMES, "a", "Bob"), times=2)
            transaction.put(NAMES, "b", "")

        self.do(work)
        self.assertGreater(len(drawn), 1)
        self.assertEqual(len(set(drawn)), 1)


class TripTests(OnEngine):
    """How often the engine is asked."""

    def trips(self, work: Any, near: Any = ()) -> int:
        asked: list[object] = []
        run = self.live.engine.run
        self.patch(self.live.engine, "run", lambda *call: (asked.append(call), run(*call))[1])
        self.successResultOf(self.live.board.transact(work, near))
        self.patch(self.live.engine, "run", run)
        return len(asked)

    def test_a_reading_that_follows_names_takes_one_when_it_is_done_again(self) -> None:
        self.do(
            lambda transaction: (transaction.put(NAMES, "a", "b"), transaction.put(NAMES, "b", "c"))
        )

        def work(transaction: BoardTransaction) -> str | None:
            found = transaction.get(NAMES, "a")
            return None if found is None else transaction.get(NAMES, found)

        near = [(NAMES, "a")]
        self.assertEqual(self.trips(work, near), 3)  # two loads, and their comparison
        self.assertEqual(self.trips(work, near), 1)

    def test_a_blind_act_takes_one(self) -> None:
        self.do(lambda transaction: transaction.get(NAMES, "a"))  # the clock is known from then on
        self.assertEqual(
            self.trips(lambda transaction: transaction.put(SIGNS, "a", transaction.now)), 1
        )


class ValueTests(OnEngine):
    def test_keys_and_values_may_be_any_text(self) -> None:
        for text in ("", "ä ö\n\r\0", "\ud800", "*", "-", "a" * 100_000):
            self.do(
                lambda transaction, text=text: transaction.put(
                    NAMES, text, text.replace("\ud800", "")
                )
            )
            found = at_once(
                self.live.another().transact(
                    lambda transaction, text=text: transaction.get(NAMES, text)
                )
            )
            self.assertEqual(found, text.replace("\ud800", ""))

    def test_a_value_changed_elsewhere_is_seen_however_often_it_was_read(self) -> None:
        kind = Kind("seats", Seat)
        other = self.live.another()
        for number in range(5):
            at_once(
                other.transact(
                    lambda transaction, n=number: transaction.put(kind, "a", Seat("ann", n))
                )
            )
            for _ in range(2):
                found = self.do(lambda transaction: transaction.get(kind, "a"))
                self.assertEqual(found, Seat("ann", number))
