"""Runs a coroutine: its result at once where it never waits, else a Deferred.

Most handlers finish without waiting; making a Deferred of each would cost more than
such a handler itself.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")


def start_coroutine(work: Coroutine[Any, Any, T]) -> T | Deferred[T]:
    """What ``work`` returns without waiting, else a Deferred of it.

    Raises what ``work`` raises before its first wait.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    return Deferred.fromCoroutine(_rest(work, waits_for))


@coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: Deferred[Any]) -> Generator[Any, Any, T]:
    """The rest of ``work`` after its first wait: passes on each awaited result or exception.

    The first step has been taken already, so ``fromCoroutine`` gets this and not ``work``.
    """
    while True:
        try:
            sent = yield waits_for
        except Exception as why:
            resume = partial(work.throw, why)
        else:
            resume = partial(work.send, sent)
        try:
            waits_for = resume()
        except StopIteration as done:
            result: T = done.value
            return result
