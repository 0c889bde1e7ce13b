"""Only the first process that starts deletes the entries left from an earlier run."""

from twisted.trial.unittest import SynchronousTestCase

from simulation.clock import World
from simulation.network import Network
from simulation.valkey import SimValkey
from svcserver.board.kinds import Kind
from svcserver.board.valkey import ValkeyBoard
from svcserver.board.waiting import at_once
from tests.support.engine_model import ModelEngine

RULE = Kind("rule_of_a_start", str)


class ForgottenTests(SynchronousTestCase):
    def setUp(self) -> None:
        world = World(1)
        self.model = SimValkey(world, Network(world, lambda *_: None))
        self.model.start()

    def started(self, *, forgets: bool = True) -> ValkeyBoard:
        board = ValkeyBoard(ModelEngine(self.model))
        if forgets:
            board.forget_at_start((RULE, ""))
        return board

    def stop_all(self) -> None:
        self.model.wires.clear()  # as when a process ends with its connections

    def rule(self, board: ValkeyBoard) -> str | None:
        return at_once(board.transact(lambda transaction: transaction.get(RULE, "")))

    def test_only_the_first_process_deletes_the_entries(self) -> None:
        first = self.started()
        at_once(first.transact(lambda transaction: transaction.put(RULE, "", "NONE")))
        second = self.started()
        self.assertEqual((self.rule(first), self.rule(second)), ("NONE", "NONE"))
        self.stop_all()
        self.assertIsNone(self.rule(self.started()))

    def test_a_process_that_deletes_nothing_does_not_count(self) -> None:
        first = self.started()
        at_once(first.transact(lambda transaction: transaction.put(RULE, "", "NONE")))
        self.stop_all()
        self.started(forgets=False)  # such as a gateway
        self.assertIsNone(self.rule(self.started()))
