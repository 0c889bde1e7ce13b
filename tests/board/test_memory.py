"""What an act on the board is: all or nothing, at once, with entries that end by themselves."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.board import BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.memory import RECLAIMED, SWEEP_EVERY, SWEPT, MemoryBoard
from svcserver.kernel.refusals import Missing
from tests.support.live import TestBoard


@frozen
class Seat:
    """A value of some kind."""

    who: str
    at: float


@frozen
class Left:
    """News of some kind."""

    who: str


SEATS = Kind("seats", Seat, lives_s=60.0, most=3)
NAMES = Kind("names", str)
READ = Kind("read", str, lives_s=60.0, most=3, kept_by_reading=True)
SIGNS = Kind("signs", float, lives_s=90.0, compared=False, listed=True)


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.live: Any = self.make_live()

    def make_live(self) -> Any:
        return TestBoard(MemoryBoard)

    def do(self, work: Any) -> Any:
        return self.successResultOf(self.live.board.transact(work))


class ActTests(Base):
    def test_what_was_put_is_there_until_dropped(self) -> None:
        self.do(lambda transaction: transaction.put(NAMES, "a", "Ann"))
        self.assertEqual(self.do(lambda transaction: transaction.get(NAMES, "a")), "Ann")
        self.assertIsNone(self.do(lambda transaction: transaction.get(NAMES, "b")))
        self.live.now += 1e9
        self.assertEqual(self.do(lambda transaction: transaction.get(NAMES, "a")), "Ann")
        self.do(lambda transaction: transaction.drop(NAMES, "a"))
        self.do(lambda transaction: transaction.drop(NAMES, "a"))
        self.assertIsNone(self.do(lambda transaction: transaction.get(NAMES, "a")))

    def test_work_reads_what_it_wrote(self) -> None:
        def work(transaction: BoardTransaction) -> list[str | None]:
            transaction.put(NAMES, "a", "Ann")
            found = [transaction.get(NAMES, "a")]
            transaction.drop(NAMES, "a")
            return [*found, transaction.get(NAMES, "a")]

        self.assertEqual(self.do(work), ["Ann", None])

    def test_raising_undoes_everything(self) -> None:
        told: list[Left] = []
        self.live.board.listen(Left, told.append)
        self.do(lambda transaction: transaction.put(NAMES, "a", "Ann"))

        def work(transaction: BoardTransaction) -> None:
            transaction.put(NAMES, "a", "Bob")
            transaction.put(NAMES, "b", "Bob")
            transaction.publish(Left("a"))
            raise Missing("nobody")

        why = self.failureResultOf(self.live.board.transact(work), Missing)
        self.assertEqual(why.value.message, "nobody")
        self.assertEqual(self.do(lambda transaction: transaction.get(NAMES, "a")), "Ann")
        self.assertIsNone(self.do(lambda transaction: transaction.get(NAMES, "b")))
        self.assertEqual(told, [])

    def test_ids_are_random_and_time_is_the_boards(self) -> None:
        first, other = self.do(lambda transaction: (transaction.new_id(), transaction.new_id()))
        self.assertNotEqual(first, other)
        self.live.now = 77.0
        self.assertEqual(self.do(lambda transaction: transaction.now), 77.0)

    def test_two_kinds_of_one_name_are_a_defect(self) -> None:
        self.do(lambda transaction: transaction.put(NAMES, "a", "Ann"))
        other = Kind("names", int)
        self.failureResultOf(
            self.live.board.transact(lambda transaction: transaction.get(other, "a")), ValueError
        )


class LifeTests(Base):
    def test_an_entry_ends_when_its_time_is_over(self) -> None:
        self.do(lambda transaction: transaction.put(SEATS, "a", Seat("ann", 1.0)))
        self.live.now += 59.9
        self.assertIsNotNone(self.do(lambda transaction: transaction.get(SEATS, "a")))
        self.live.now += 0.1
        self.assertIsNone(self.do(lambda transaction: transaction.get(SEATS, "a")))

    def test_putting_begins_its_time_anew_and_reading_where_the_kind_says_so(self) -> None:
        self.do(lambda transaction: transaction.put(SEATS, "a", Seat("ann", 1.0)))
        self.do(lambda transaction: transaction.put(READ, "a", "ann"))
        self.live.now += 59
        self.do(lambda transaction: transaction.put(SEATS, "a", Seat("ann", 2.0)))
        self.do(lambda transaction: transaction.get(READ, "a"))
        self.live.now += 59
        self.assertIsNotNone(self.do(lambda transaction: transaction.get(SEATS, "a")))
        self.assertIsNotNone(self.do(lambda transaction: transaction.get(READ, "a")))
        self.live.now += 2
        self.assertIsNone(self.do(lambda transaction: transaction.get(SEATS, "a")))
        self.assertIsNotNone(self.do(lambda transaction: transaction.get(READ, "a")))


class BoundTests(Base):
    """Of the memory board alone: an engine has one bound for all."""

    def test_the_one_that_would_end_first_gives_way(self) -> None:
        for key in "abc":
            self.do(lambda transaction, key=key: transaction.put(READ, key, key))
        self.do(lambda transaction: transaction.get(READ, "a"))
        self.do(lambda transaction: transaction.put(READ, "d", "d"))
        found = [self.do(lambda transaction, key=key: transaction.get(READ, key)) for key in "abcd"]
        self.assertEqual(found, ["a", None, "c", "d"])
        self.assertEqual(self.live.board.held(READ), 3)

    def test_what_is_over_leaves_the_memory_though_its_kind_is_written_no_more(self) -> None:
        for key in "abc":
            self.do(lambda transaction, key=key: transaction.put(SEATS, key, Seat(key, 1.0)))
        self.live.now += 61
        for number in range(3 * SWEEP_EVERY):
            self.do(lambda transaction, number=number: transaction.put(NAMES, str(number), ""))
        self.assertEqual(self.live.board.held(SEATS), 0)

    def test_one_act_takes_few_of_those_that_are_over(self) -> None:
        many = Kind("many", str, lives_s=60.0)
        for number in range(100):
            self.do(lambda transaction, number=number: transaction.put(many, str(number), ""))
        self.live.now += 61
        self.do(lambda transaction: transaction.put(many, "x", ""))
        self.assertLessEqual(101 - self.live.board.held(many), RECLAIMED + SWEPT)


class ListTests(Base):
    def test_it_lists_who_is_there(self) -> None:
        self.do(lambda transaction: transaction.put(SIGNS, "a", 1.0))
        self.live.now += 50
        self.do(lambda transaction: transaction.put(SIGNS, "b", 2.0))
        self.assertEqual(
            self.do(lambda transaction: transaction.each(SIGNS)), [("a", 1.0), ("b", 2.0)]
        )
        self.live.now += 50
        self.assertEqual(self.do(lambda transaction: transaction.count(SIGNS)), 1)
        self.assertEqual(self.do(lambda transaction: transaction.each(SIGNS)), [("b", 2.0)])

    def test_with_what_the_work_itself_wrote(self) -> None:
        self.do(lambda transaction: transaction.put(SIGNS, "a", 1.0))

        def work(transaction: BoardTransaction) -> Any:
            transaction.put(SIGNS, "b", 2.0)
            transaction.drop(SIGNS, "a")
            return transaction.each(SIGNS), transaction.count(SIGNS)

        self.assertEqual(self.do(work), ([("b", 2.0)], 1))

    def test_not_one_that_is_kept_by_reading(self) -> None:
        with self.assertRaises(TypeError):
            Kind("both", str, lives_s=90.0, kept_by_reading=True, listed=True)

    def test_only_a_listed_kind(self) -> None:
        self.failureResultOf(
            self.live.board.transact(lambda transaction: transaction.each(NAMES)), TypeError
        )


class NewsTests(Base):
    def test_news_comes_after_the_act_to_whoever_listens_to_its_type(self) -> None:
        told: list[str] = []

        def listener(news: Left) -> None:
            told.append(f"{news.who} {self.do(lambda transaction: transaction.get(NAMES, 'a'))}")

        self.live.board.listen(Left, listener)

        def work(transaction: BoardTransaction) -> None:
            transaction.publish(Left("ann"))
            transaction.publish("nobody listens to text")
            transaction.put(NAMES, "a", "Ann")

        self.do(work)
        self.assertEqual(told, ["ann Ann"])

    def test_what_a_listener_causes_is_told_after_what_was_told_before(self) -> None:
        told: list[str] = []

        def more(news: Left) -> None:
            if len(news.who) < 3:
                self.do(lambda transaction: transaction.publish(Left(news.who + "+")))

        self.live.board.listen(Left, more)
        self.live.board.listen(Left, lambda news: told.append(news.who))

        def work(transaction: BoardTransaction) -> None:
            transaction.publish(Left("a"))
            transaction.publish(Left("b"))

        self.do(work)
        self.assertEqual(told, ["a", "b", "a+", "b+", "a++", "b++"])

    def test_a_listener_that_fails_is_logged_and_undoes_nothing(self) -> None:
        told: list[Left] = []

        def broken(_: Left) -> None:
            raise ZeroDivisionError

        self.live.board.listen(Left, broken)
        self.live.board.listen(Left, told.append)
        self.do(lambda transaction: transaction.publish(Left("ann")))
        self.assertEqual(told, [Left("ann")])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
