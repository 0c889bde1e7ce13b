"""Waiting on an injected clock."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred


def pause(clock: Any, seconds: float) -> Deferred[None]:
    """Fires after ``seconds``; cancelling it cancels the timer."""
    done: Deferred[None] = Deferred(lambda _: call.cancel())
    call = clock.callLater(seconds, done.callback, None)
    return done
