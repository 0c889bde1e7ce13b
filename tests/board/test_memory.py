"""Transactions on the memory board are atomic, and the board's entries expire."""

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
    """An example value."""

    who: str
    at: float


@frozen
class Left:
    """An example notification."""

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

    def get(self, kind: Kind[Any], key: str) -> Any:
        return self.do(lambda transaction: transaction.get(kind, key))

    def put(self, kind: Kind[Any], key: str, value: Any) -> None:
        self.do(lambda transaction: transaction.put(kind, key, value))

    def drop(self, kind: Kind[Any], key: str) -> None:
        self.do(lambda transaction: transaction.drop(kind, key))

    def publish(self, news: object) -> None:
        self.do(lambda transaction: transaction.publish(news))


class ActTests(Base):
    def test_an_entry_exists_until_it_is_dropped(self) -> None:
        self.put(NAMES, "a", "Ann")
        self.assertEqual(self.get(NAMES, "a"), "Ann")
        self.assertIsNone(self.get(NAMES, "b"))
        self.live.now += 1e9
        self.assertEqual(self.get(NAMES, "a"), "Ann")
        self.drop(NAMES, "a")
        self.drop(NAMES, "a")
        self.assertIsNone(self.get(NAMES, "a"))

    def test_work_reads_its_own_writes(self) -> None:
        def work(transaction: BoardTransaction) -> list[str | None]:
            transaction.put(NAMES, "a", "Ann")
            values = [transaction.get(NAMES, "a")]
            transaction.drop(NAMES, "a")
            return [*values, transaction.get(NAMES, "a")]

        self.assertEqual(self.do(work), ["Ann", None])

    def test_a_transaction_that_raises_undoes_entries_and_news(self) -> None:
        received: list[Left] = []
        self.live.board.listen(Left, received.append)
        self.put(NAMES, "a", "Ann")

        def work(transaction: BoardTransaction) -> None:
            transaction.put(NAMES, "a", "Bob")
            transaction.put(NAMES, "b", "Bob")
            transaction.publish(Left("a"))
            raise Missing("nobody")

        why = self.failureResultOf(self.live.board.transact(work), Missing)
        self.assertEqual(why.value.message, "nobody")
        self.assertEqual(self.get(NAMES, "a"), "Ann")
        self.assertIsNone(self.get(NAMES, "b"))
        self.assertEqual(received, [])

    def test_ids_are_random_and_the_time_is_the_boards(self) -> None:
        first, second = self.do(lambda transaction: (transaction.new_id(), transaction.new_id()))
        self.assertNotEqual(first, second)
        self.live.now = 77.0
        self.assertEqual(self.do(lambda transaction: transaction.now), 77.0)

    def test_two_kinds_with_one_name_are_an_error(self) -> None:
        self.put(NAMES, "a", "Ann")
        namesake = Kind("names", int)
        self.failureResultOf(
            self.live.board.transact(lambda transaction: transaction.get(namesake, "a")), ValueError
        )


class LifeTests(Base):
    def test_an_entry_expires(self) -> None:
        self.put(SEATS, "a", Seat("ann", 1.0))
        self.live.now += 59.9
        self.assertIsNotNone(self.get(SEATS, "a"))
        self.live.now += 0.1
        self.assertIsNone(self.get(SEATS, "a"))

    def test_put_renews_the_lifetime_and_get_if_kept_by_reading(self) -> None:
        self.put(SEATS, "a", Seat("ann", 1.0))
        self.put(READ, "a", "ann")
        self.live.now += 59
        self.put(SEATS, "a", Seat("ann", 2.0))
        self.get(READ, "a")
        self.live.now += 59
        self.assertIsNotNone(self.get(SEATS, "a"))
        self.assertIsNotNone(self.get(READ, "a"))
        self.live.now += 2
        self.assertIsNone(self.get(SEATS, "a"))
        self.assertIsNotNone(self.get(READ, "a"))


class BoundTests(Base):
    def test_above_the_limit_the_first_to_expire_is_dropped(self) -> None:
        for key in "abc":
            self.put(READ, key, key)
        self.get(READ, "a")
        self.put(READ, "d", "d")
        values = [self.get(READ, key) for key in "abcd"]
        self.assertEqual(values, ["a", None, "c", "d"])
        self.assertEqual(self.live.board.held(READ), 3)

    def test_expired_entries_of_an_unused_kind_leave_the_memory(self) -> None:
        for key in "abc":
            self.put(SEATS, key, Seat(key, 1.0))
        self.live.now += 61
        for number in range(3 * SWEEP_EVERY):
            self.put(NAMES, str(number), "")
        self.assertEqual(self.live.board.held(SEATS), 0)

    def test_one_transaction_removes_few_expired_entries(self) -> None:
        many = Kind("many", str, lives_s=60.0)
        for number in range(100):
            self.put(many, str(number), "")
        self.live.now += 61
        self.put(many, "x", "")
        self.assertLessEqual(101 - self.live.board.held(many), RECLAIMED + SWEPT)


class ListTests(Base):
    def test_a_list_has_the_entries_that_have_not_expired(self) -> None:
        self.put(SIGNS, "a", 1.0)
        self.live.now += 50
        self.put(SIGNS, "b", 2.0)
        self.assertEqual(
            self.do(lambda transaction: transaction.each(SIGNS)), [("a", 1.0), ("b", 2.0)]
        )
        self.live.now += 50
        self.assertEqual(self.do(lambda transaction: transaction.count(SIGNS)), 1)
        self.assertEqual(self.do(lambda transaction: transaction.each(SIGNS)), [("b", 2.0)])

    def test_a_list_includes_the_transactions_own_writes(self) -> None:
        self.put(SIGNS, "a", 1.0)

        def work(transaction: BoardTransaction) -> Any:
            transaction.put(SIGNS, "b", 2.0)
            transaction.drop(SIGNS, "a")
            return transaction.each(SIGNS), transaction.count(SIGNS)

        self.assertEqual(self.do(work), ([("b", 2.0)], 1))

    def test_a_listed_kind_cannot_be_kept_by_reading(self) -> None:
        with self.assertRaises(TypeError):
            Kind("both", str, lives_s=90.0, kept_by_reading=True, listed=True)

    def test_an_unlisted_kind_has_no_list(self) -> None:
        self.failureResultOf(
            self.live.board.transact(lambda transaction: transaction.each(NAMES)), TypeError
        )


class NewsTests(Base):
    def test_news_reaches_listeners_of_its_type_after_the_commit(self) -> None:
        received: list[str] = []

        def listener(news: Left) -> None:
            received.append(f"{news.who} {self.get(NAMES, 'a')}")

        self.live.board.listen(Left, listener)

        def work(transaction: BoardTransaction) -> None:
            transaction.publish(Left("ann"))
            transaction.publish("nobody listens to text")
            transaction.put(NAMES, "a", "Ann")

        self.do(work)
        self.assertEqual(received, ["ann Ann"])

    def test_news_of_a_listener_comes_after_earlier_news(self) -> None:
        received: list[str] = []

        def more(news: Left) -> None:
            if len(news.who) < 3:
                self.publish(Left(news.who + "+"))

        self.live.board.listen(Left, more)
        self.live.board.listen(Left, lambda news: received.append(news.who))

        def work(transaction: BoardTransaction) -> None:
            transaction.publish(Left("a"))
            transaction.publish(Left("b"))

        self.do(work)
        self.assertEqual(received, ["a", "b", "a+", "b+", "a++", "b++"])

    def test_a_failing_listener_is_logged_and_undoes_nothing(self) -> None:
        received: list[Left] = []

        def broken(_: Left) -> None:
            raise ZeroDivisionError

        self.live.board.listen(Left, broken)
        self.live.board.listen(Left, received.append)
        self.publish(Left("ann"))
        self.assertEqual(received, [Left("ann")])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
