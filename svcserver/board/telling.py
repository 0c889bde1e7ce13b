"""News of a feature that every process hears: through the board, where several share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from svcserver.board.board import Board
from svcserver.board.waiting import unwaited
from svcserver.kernel.signals import Signal

N = TypeVar("N")


def everywhere(board: Board, signal: Signal[N], kind: type[N], hear: Callable[[N], None]) -> None:
    """``hear`` what is sent here and, on a board that others share, in their processes.

    Once for a signal, or it would be told twice; whoever else wants it asks ``also_hear``.
    """
    also_hear(board, signal, kind, hear)
    if board.shared:
        signal.connect(lambda one: unwaited(board.act(lambda transaction: transaction.tell(one))))


def also_hear(board: Board, signal: Signal[N], kind: type[N], hear: Callable[[N], None]) -> None:
    """One more who hears what ``everywhere`` tells."""
    if board.shared:
        board.listen(kind, hear)
    else:
        signal.connect(hear)
