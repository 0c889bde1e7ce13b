"""A runner that returns a coroutine's result directly, or a Deferred if the coroutine waits.

Most handlers do not wait, and so need no Deferred. Unlike Twisted's ``Deferred.fromCoroutine``,
this runner does not copy the context variables, and makes fewer calls.
"""

from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

log = Logger()

T = TypeVar("T")


def start_coroutine(work: Coroutine[Any, Any, T]) -> T | Deferred[T]:
    """Return the result of ``work`` if ``work`` does not wait, else a Deferred of the result.

    An error before the first wait is raised at once. Cancelling the Deferred cancels what ``work``
    waits for.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    return _Waiting(work, waits_for).done


class _Waiting(Generic[T]):
    """A coroutine that waits for a Deferred and resumes with the Deferred's result."""

    __slots__ = ("_waits_for", "_work", "done")

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Deferred[Any]) -> None:
        self._work, self._waits_for = work, waits_for
        self.done: Deferred[T] = Deferred(self._cancel)
        waits_for.addBoth(self._go_on)

    def _cancel(self, done: Deferred[T]) -> None:
        self._waits_for.cancel()

    def _go_on(self, result: Any) -> None:
        """Resume the coroutine with the result or the error of the awaited Deferred."""
        try:
            if isinstance(result, Failure):
                waits_for = result.throwExceptionIntoGenerator(self._work)
            else:
                waits_for = self._work.send(None)
        except StopIteration as over:
            if not self.done.called:
                self.done.callback(over.value)
        except BaseException as error:  # else the Deferred would never fire
            if not self.done.called:
                self.done.errback()
            elif not isinstance(error, CancelledError):
                log.failure("a cancelled request failed later")
        else:
            self._waits_for = waits_for
            waits_for.addBoth(self._go_on)
