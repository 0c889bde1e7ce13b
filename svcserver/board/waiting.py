"""Helpers for the Deferreds of board transactions."""

from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel.refusals import Unavailable

T = TypeVar("T")
log = Logger()


def log_failure(result: Deferred[Any]) -> None:
    """Log the failure of a result that no code waits for; ``Unavailable`` is not logged."""
    if not _has_result(result):
        result.addErrback(_unless_away)


def _has_result(deferred: Deferred[Any]) -> bool:
    return deferred.called and not deferred.paused and not isinstance(deferred.result, Failure)


def _unless_away(failure: Failure) -> None:
    if not failure.check(Unavailable):
        log.failure("a live-state transaction failed", failure)


def with_fallback(result: Deferred[T], fallback: T) -> Deferred[T]:
    """Return the result, or ``fallback`` if live state is unavailable."""
    if _has_result(result):
        return result

    def without(why: Failure) -> T:
        why.trap(Unavailable)
        return fallback

    return result.addErrback(without)


def at_once(deferred: Deferred[T]) -> T:
    """Return or raise the result of a transaction on a ``MemoryBoard``, which commits at once."""
    results: list[T | Failure] = []
    deferred.addCallbacks(results.append, results.append)
    if not results:
        raise RuntimeError(
            "the transaction has no result yet, and at_once() does not wait for a result. "
            "Use at_once() only with a MemoryBoard, whose transactions end at once."
        )
    result = results[0]
    if isinstance(result, Failure):
        result.raiseException()
    value: T = result
    return value
