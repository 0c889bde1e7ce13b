"""News that every process hears, once: here alone, or of any that share the board."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.board import Board
from svcserver.board.delivery import connect_shared, share_signal
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.kernel.signals import Renamed, Signal

NEWS = Renamed("ann", "Ada")


class Shared(RehearsedBoard):
    """As processes share one on an engine."""

    shared = True


class Process:
    """Two features of it hear of new names."""

    def __init__(self, board: Board) -> None:
        self.signal: Signal[Renamed] = Signal()
        self.heard: list[Renamed] = []
        self.heard_too: list[Renamed] = []
        share_signal(board, self.signal, Renamed, self.heard.append)
        connect_shared(board, self.signal, Renamed, self.heard_too.append)


class TellingTests(SynchronousTestCase):
    def test_alone_both_hear_it_once(self) -> None:
        one = Process(RehearsedBoard(Clock().seconds))
        one.signal.send(NEWS)
        self.assertEqual((one.heard, one.heard_too), ([NEWS], [NEWS]))

    def test_all_who_share_the_board_hear_it_once(self) -> None:
        board = Shared(Clock().seconds)
        here, there = Process(board), Process(board)
        here.signal.send(NEWS)
        for one in (here, there):
            self.assertEqual((one.heard, one.heard_too), ([NEWS], [NEWS]))
