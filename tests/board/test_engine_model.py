"""The board on the model of Valkey runs each transaction twice, on random parties and queues.

The tests use the state machines and plain models of the tests of the memory board. Parties on a
real engine are tested in ``test_valkey.py``; ``tests/simulation/test_valkey.py`` compares the model
with Valkey.
"""

from itertools import count
from typing import Any

from hypothesis import given, settings
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.board import BoardTransaction, EngineInfo
from svcserver.board.kinds import Kind
from tests.board import test_memory
from tests.board.test_quota_machine import STEPS, follow
from tests.metagame.play.matchmaking.test_machine import QueueMachine
from tests.metagame.social.parties.test_machine import PartyMachine
from tests.support.engine_model import OnModel

NOTES = Kind("notes_on_the_model", int)


class Base(test_memory.Base):
    def make_live(self) -> OnModel:
        return OnModel()


class ActTests(Base, test_memory.ActTests):
    pass


class EngineInfoTests(Base):
    def test_the_model_reports_its_version_and_uptime(self) -> None:
        info = self.successResultOf(self.live.board.engine_info())
        self.assertEqual(info, EngineInfo("8.1.0", 60))


class LifeTests(Base, test_memory.LifeTests):
    pass


class NewsTests(Base, test_memory.NewsTests):
    pass


class QuotaTests(SynchronousTestCase):
    @settings(max_examples=40, deadline=None)
    @given(STEPS)
    def test_a_quota_is_a_list_of_times_within_the_window(
        self, steps: list[tuple[str, str, float]]
    ) -> None:
        follow(self, OnModel(), steps)


class Parties(PartyMachine):
    make_live = OnModel


class Queues(QueueMachine):
    make_live = OnModel


PartiesTests, QueuesTests = Parties.TestCase, Queues.TestCase
PartiesTests.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)
QueuesTests.settings = settings(max_examples=10, stateful_step_count=30, deadline=None)


class TwiceTests(Base):
    def test_work_that_reads_and_writes_runs_twice(self) -> None:
        runs: list[int | None] = []

        def work(transaction: BoardTransaction) -> None:
            runs.append(transaction.get(NOTES, "a"))
            transaction.put(NOTES, "a", 1)

        self.live.do(work)
        self.assertEqual(self.live.engine.refusals, 1)
        self.assertEqual(self.live.board.conflicts, 1)
        self.assertGreaterEqual(runs.count(None), 2)
        self.assertEqual(self.live.do(lambda transaction: transaction.get(NOTES, "a")), 1)

    def test_work_with_another_result_fails(self) -> None:
        numbers = count()

        def work(transaction: BoardTransaction) -> Any:
            transaction.get(NOTES, "a")
            transaction.put(NOTES, "a", next(numbers))

        with self.assertRaises(AssertionError):
            self.live.do(work)
