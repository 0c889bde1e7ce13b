"""The memory board for tests: it finds what would go wrong on an engine that others share.

Every work runs twice and must do the same both times, and every value goes through its encoded
form, so that a change made to a value that was read is lost, as it would be there.
"""

from __future__ import annotations

from typing import Any, TypeVar

import cattrs
from twisted.internet.defer import Deferred

from svcserver.board.board import Work
from svcserver.board.kinds import Kind
from svcserver.board.memory import MemoryBoard, MemoryTransaction

T = TypeVar("T")


class NotRepeatable(AssertionError):
    """A piece of work, run again on the same entries, did something else."""


class NotEncodable(AssertionError):
    """A value does not come back as it was from its encoded form."""


class RehearsedBoard(MemoryBoard):
    """A ``MemoryBoard`` that runs every work twice and copies every value through its encoding."""

    def _run(self, work: Work[T], now: float) -> tuple[T, MemoryTransaction]:
        ids: list[str] = []
        transactions = [_CopyingTransaction(now, self._tables, ids) for _ in range(2)]
        first, again = (_outcome(work, transaction) for transaction in transactions)
        for what, one, other in (
            ("result", _comparable(first), _comparable(again)),
            ("writes", transactions[0].written, transactions[1].written),
            ("news", transactions[0].news, transactions[1].news),
        ):
            if one != other:
                raise NotRepeatable(f"{what} of {work!r}: first {one!r}, then {other!r}")
        result, raised = again
        if raised is not None:
            raise raised
        if isinstance(result, Deferred):
            raise NotRepeatable(f"{work!r} is not synchronous")
        return result, transactions[1]


class _CopyingTransaction(MemoryTransaction):
    """Gives copies of values and keeps copies, as an engine elsewhere does."""

    __slots__ = ()

    def get(self, kind: Kind[T], key: str) -> T | None:
        """A copy, as if it came from elsewhere."""
        found = super().get(kind, key)
        return None if found is None else kind.decode(kind.encode(found))

    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        """Every entry of the kind, as copies."""
        return [(key, kind.decode(kind.encode(one))) for key, one in super().each(kind)]

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        """Keep a copy that equals the value."""
        try:
            copy = kind.decode(kind.encode(value))
        except (TypeError, ValueError, cattrs.BaseValidationError) as why:
            raise NotEncodable(f"{kind.name}: put {value!r}") from why
        if copy != value:
            raise NotEncodable(f"{kind.name}: put {value!r}, got back {copy!r}")
        super().put(kind, key, copy)


def _outcome(work: Work[T], transaction: MemoryTransaction) -> tuple[Any, Exception | None]:
    try:
        return work(transaction), None
    except Exception as why:
        return None, why


def _comparable(outcome: tuple[Any, Exception | None]) -> Any:
    result, raised = outcome
    return result if raised is None else (type(raised), raised.args, vars(raised))
