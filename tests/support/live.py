"""A board for tests without a whole game; it has a manual clock and runs each transaction twice."""

from typing import TypeVar

from svcserver.board.board import Work
from svcserver.board.memory import MemoryBoard
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.board.waiting import at_once

T = TypeVar("T")


class TestBoard:
    """A board for tests: ``now`` sets the time, ``do`` returns or raises a transaction's result."""

    __test__ = False  # no test by itself

    def __init__(self, board: type[MemoryBoard] = RehearsedBoard, now: float = 0.0) -> None:
        self.now = now
        self.board = board(lambda: self.now)

    def do(self, work: Work[T], now: float | None = None) -> T:
        """Run ``work`` and return its result; set the time to ``now`` first if it is given."""
        if now is not None:
            self.now = now
        return at_once(self.board.transact(work))
