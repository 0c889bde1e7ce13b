"""The delivery of events to listeners, in order, in every process that shares the board."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from attrs import define, field
from twisted.logger import Logger

from svcserver.board.board import Board
from svcserver.board.waiting import log_failure
from svcserver.kernel.signals import Signal

T = TypeVar("T")
N = TypeVar("N")
log = Logger()


@define(eq=False)
class InOrder(Generic[T]):
    """A queue that passes items to ``take`` one by one; items that ``take`` adds go to the end."""

    take: Callable[[T], None]
    busy: bool = field(default=False, init=False)
    _waiting: deque[T] = field(factory=deque, init=False)

    def add(self, items: Iterable[T]) -> None:
        """Queue the items, then process the queue unless ``take`` is already running."""
        self._waiting.extend(items)
        if self.busy:
            return
        self.busy = True
        try:
            while self._waiting:
                self.take(self._waiting.popleft())
        finally:
            self.busy = False


def deliver(listener: Callable[[Any], None], news: object) -> None:
    """Call a listener; only log its failure, because the transaction is already committed."""
    try:
        listener(news)
    except Exception:
        log.failure("a listener failed to handle the event {news}", news=type(news).__name__)


def share_signal(
    board: Board, signal: Signal[N], kind: type[N], handler: Callable[[N], None]
) -> None:
    """Call ``handler`` whenever a process that shares the board sends the signal.

    Call this once for each signal; use ``connect_shared`` for further handlers.
    """
    connect_shared(board, signal, kind, handler)
    if board.shared:
        signal.connect(
            lambda news: log_failure(board.transact(lambda transaction: transaction.publish(news)))
        )


def connect_shared(
    board: Board, signal: Signal[N], kind: type[N], handler: Callable[[N], None]
) -> None:
    """Add another handler to a signal that ``share_signal`` has shared."""
    if board.shared:
        board.listen(kind, handler)
    else:
        signal.connect(handler)
