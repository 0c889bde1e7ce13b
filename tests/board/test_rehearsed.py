"""The faults that ``RehearsedBoard`` detects, but the memory board does not."""

from itertools import count
from typing import Any

from attrs import define, frozen
from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.board import BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.board.rehearsed import NotEncodable, NotRepeatable
from svcserver.kernel.ids import new_id
from svcserver.kernel.refusals import Missing
from tests.support.live import TestBoard


@frozen
class Crowd:
    """An example value with several attributes."""

    members: frozenset[str]
    seen_at: dict[str, float]
    leader: str | None = None


@define
class Open:
    """An example value that is mutable."""

    names: list[str]


CROWDS = Kind("crowds", Crowd)
OPENS = Kind("opens", Open)
TIMES = Kind("times", float)


class RehearsalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.live = TestBoard()

    def do(self, work: Any) -> Any:
        return self.live.do(work)

    def get(self, kind: Kind[Any], key: str) -> Any:
        return self.do(lambda transaction: transaction.get(kind, key))

    def refused(self, work: Any, why: type[Exception]) -> None:
        self.failureResultOf(self.live.board.transact(work), why)

    def test_sound_work_passes_and_counts_once(self) -> None:
        crowd = Crowd(frozenset({"a", "b"}), {"a": 1.5})
        received: list[int] = []
        self.live.board.listen(int, received.append)

        def work(transaction: BoardTransaction) -> str:
            transaction.put(CROWDS, "x", crowd)
            transaction.publish(7)
            return transaction.new_id()

        self.assertEqual(len(self.do(work)), 36)
        self.assertEqual(self.get(CROWDS, "x"), crowd)
        self.assertEqual(received, [7])

    def test_a_result_that_differs_between_runs_is_not_repeatable(self) -> None:
        numbers = count()
        self.refused(lambda transaction: next(numbers), NotRepeatable)

    def test_work_that_makes_a_random_id_is_not_repeatable(self) -> None:
        def work(transaction: BoardTransaction) -> None:
            transaction.put(CROWDS, new_id(), Crowd(frozenset(), {}))

        self.refused(work, NotRepeatable)

    def test_news_that_differs_between_runs_is_not_repeatable(self) -> None:
        numbers = count()
        self.refused(lambda transaction: transaction.publish(next(numbers)), NotRepeatable)

    def test_a_refusal_that_differs_between_runs_is_not_repeatable(self) -> None:
        numbers = count()

        def work(transaction: BoardTransaction) -> None:
            raise Missing(str(next(numbers)))

        self.refused(work, NotRepeatable)

    def test_a_refusal_that_is_equal_in_both_runs_is_raised(self) -> None:
        def work(transaction: BoardTransaction) -> None:
            raise Missing("no")

        self.refused(work, Missing)

    def test_work_that_returns_a_deferred_is_not_repeatable(self) -> None:
        done = succeed(None)
        self.refused(lambda transaction: done, NotRepeatable)

    def test_a_value_that_cannot_be_encoded_is_refused(self) -> None:
        self.refused(lambda transaction: transaction.put(TIMES, "x", float("-inf")), NotEncodable)

    def test_a_change_of_a_value_after_its_read_is_lost(self) -> None:
        self.do(lambda transaction: transaction.put(OPENS, "x", Open(["a"])))

        def work(transaction: BoardTransaction) -> None:
            value = transaction.get(OPENS, "x")
            assert value is not None
            value.names.append("b")

        self.do(work)
        self.assertEqual(self.get(OPENS, "x"), Open(["a"]))
