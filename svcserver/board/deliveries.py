"""Delivery of news: one after the other, and a listener that fails stops nobody else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from attrs import define, field
from twisted.logger import Logger

T = TypeVar("T")
log = Logger()


@define(eq=False)
class InOrder(Generic[T]):
    """Gives what comes to ``take``, one by one; what ``take`` itself adds comes after."""

    take: Callable[[T], None]
    busy: bool = field(default=False, init=False)
    _waiting: deque[T] = field(factory=deque, init=False)

    def add(self, some: Iterable[T]) -> None:
        """Take them now, or when the one that is being taken is done."""
        self._waiting.extend(some)
        if self.busy:
            return
        self.busy = True
        try:
            while self._waiting:
                self.take(self._waiting.popleft())
        finally:
            self.busy = False


def deliver(listener: Callable[[Any], None], news: object) -> None:
    """Call a listener. The act counts already, so its asker is told of no failure."""
    try:
        listener(news)
    except Exception:
        log.failure("a listener failed on {news}", news=type(news).__name__)
