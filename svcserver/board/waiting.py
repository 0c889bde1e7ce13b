"""Acts that nobody waits for, and those without which their asker goes on."""

from __future__ import annotations

from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel.refusals import Unavailable

T = TypeVar("T")
log = Logger()


def unwaited(done: Deferred[Any]) -> None:
    """Log it if what had to follow some news could not be done.

    Where live state cannot be reached the engine's connection says so, once.
    """
    if not _done_well(done):
        done.addErrback(_unless_away)


def _done_well(done: Deferred[Any]) -> bool:
    """Whether it has its result already: on the board in memory nearly always."""
    return done.called and not done.paused and not isinstance(done.result, Failure)


def _unless_away(why: Failure) -> None:
    if not why.check(Unavailable):
        log.failure("an act on live state failed", why)


def dispensable(done: Deferred[T], instead: T) -> Deferred[T]:
    """What an act gives, or ``instead`` where live state cannot be reached."""
    if _done_well(done):
        return done

    def without(why: Failure) -> T:
        why.trap(Unavailable)
        return instead

    return done.addErrback(without)


def at_once(done: Deferred[T]) -> T:
    """What an act on the board in memory has given or raised; for an asker who cannot wait.

    With an engine elsewhere there can be no such asker.
    """
    found: list[T | Failure] = []
    done.addCallbacks(found.append, found.append)
    if not found:
        raise RuntimeError("this board does not answer at once")
    result = found[0]
    if isinstance(result, Failure):
        result.raiseException()
    value: T = result
    return value
