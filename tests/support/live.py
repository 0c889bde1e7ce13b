"""The board for tests without a whole game: a clock to set, and every transaction run twice."""

from __future__ import annotations

from typing import TypeVar

from svcserver.board.board import Work
from svcserver.board.memory import MemoryBoard
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.board.waiting import at_once

T = TypeVar("T")


class TestBoard:
    """``now`` is its time, which a test moves; ``do`` gives what an act gives, or raises it."""

    __test__ = False  # no test by itself

    def __init__(self, board: type[MemoryBoard] = RehearsedBoard, now: float = 0.0) -> None:
        self.now = now
        self.board = board(lambda: self.now)

    def do(self, work: Work[T], now: float | None = None) -> T:
        """The result of ``work``, at ``now`` if that is given."""
        if now is not None:
            self.now = now
        return at_once(self.board.transact(work))
