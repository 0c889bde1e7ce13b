"""The tests' ``MemoryBoard``: it detects work that would fail on a live-state engine.

It runs all work twice and requires the same outcome both times. Like an engine, it encodes
and decodes each value.
"""

from typing import Any, TypeVar

import cattrs
from twisted.internet.defer import Deferred

from svcserver.board.board import Work
from svcserver.board.kinds import Kind
from svcserver.board.memory import MemoryBoard, MemoryTransaction

T = TypeVar("T")


class NotRepeatable(AssertionError):
    """The error for work that has a different outcome when it runs again on the same entries."""


class NotEncodable(AssertionError):
    """The error for a value that changes when it is encoded and decoded."""


class RehearsedBoard(MemoryBoard):
    """A ``MemoryBoard`` that runs all work twice and encodes each value."""

    def _run(self, work: Work[T], now: float) -> tuple[T, MemoryTransaction]:
        ids: list[str] = []
        transactions = [_CopyingTransaction(now, self._tables, ids) for _ in range(2)]
        first, second = (_outcome(work, transaction) for transaction in transactions)
        for what, before, after in (
            ("result", _comparable(first), _comparable(second)),
            ("writes", transactions[0].written, transactions[1].written),
            ("news", transactions[0].news, transactions[1].news),
        ):
            if before != after:
                raise NotRepeatable(f"{what} of {work!r}: first {before!r}, then {after!r}")
        result, raised = second
        if raised is not None:
            raise raised
        if isinstance(result, Deferred):
            raise NotRepeatable(f"{work!r} is not synchronous")
        return result, transactions[1]


class _CopyingTransaction(MemoryTransaction):
    """A transaction that encodes and decodes each value it reads or writes, as an engine does."""

    __slots__ = ()

    def get(self, kind: Kind[T], key: str) -> T | None:
        value = super().get(kind, key)
        return None if value is None else kind.decode(kind.encode(value))

    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        return [(key, kind.decode(kind.encode(value))) for key, value in super().each(kind)]

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        try:
            copy = kind.decode(kind.encode(value))
        except (TypeError, ValueError, cattrs.BaseValidationError) as error:
            raise NotEncodable(f"{kind.name}: put {value!r}") from error
        if copy != value:
            raise NotEncodable(f"{kind.name}: put {value!r}, got back {copy!r}")
        super().put(kind, key, copy)


def _outcome(work: Work[T], transaction: MemoryTransaction) -> tuple[Any, Exception | None]:
    try:
        return work(transaction), None
    except Exception as error:
        return None, error


def _comparable(outcome: tuple[Any, Exception | None]) -> Any:
    result, raised = outcome
    return result if raised is None else (type(raised), raised.args, vars(raised))
