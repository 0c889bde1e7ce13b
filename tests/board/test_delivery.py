"""Each signal is delivered once to every handler in every process that shares the board."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.board import Board
from svcserver.board.delivery import connect_shared, share_signal
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.kernel.signals import Renamed, Signal

NEWS = Renamed("ann", "Ada")


class Shared(RehearsedBoard):
    shared = True


class Process:
    """A process with two handlers."""

    def __init__(self, board: Board) -> None:
        self.signal: Signal[Renamed] = Signal()
        self.received: list[Renamed] = []
        self.also_received: list[Renamed] = []
        share_signal(board, self.signal, Renamed, self.received.append)
        connect_shared(board, self.signal, Renamed, self.also_received.append)


class DeliveryTests(SynchronousTestCase):
    def test_both_handlers_of_a_single_process_run_once(self) -> None:
        process = Process(RehearsedBoard(Clock().seconds))
        process.signal.send(NEWS)
        self.assertEqual((process.received, process.also_received), ([NEWS], [NEWS]))

    def test_all_handlers_of_all_processes_run_once(self) -> None:
        board = Shared(Clock().seconds)
        here, there = Process(board), Process(board)
        here.signal.send(NEWS)
        for process in (here, there):
            self.assertEqual((process.received, process.also_received), ([NEWS], [NEWS]))
