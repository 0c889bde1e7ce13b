"""Protects coroutines from being cancelled.

The HTTP server cancels a handler when its client disconnects. A database write that has started
still commits. So the steps that follow the write, such as signals to other features, must also run.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel.refusals import Refusal

P = ParamSpec("P")
T = TypeVar("T")
log = Logger()


def shielded(
    work: Callable[P, Coroutine[Deferred[Any], Any, T]],
) -> Callable[P, Coroutine[Deferred[Any], Any, T]]:
    """Decorate ``work`` so that a cancelled caller stops waiting, but the work runs to its end."""

    @wraps(work)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await apart(Deferred.fromCoroutine(work(*args, **kwargs)), work.__qualname__)

    return run


def apart(done: Deferred[T], what: str) -> Deferred[T]:
    """Return a Deferred with the result of ``done``; cancelling it does not cancel ``done``."""
    waiting: Deferred[T] = Deferred()

    def ended(result: Any) -> None:
        if not waiting.called:
            waiting.callback(result)
        elif isinstance(result, Failure) and not result.check(Refusal):
            log.failure("{what} failed after its client had disconnected", result, what=what)

    done.addBoth(ended)
    return waiting
