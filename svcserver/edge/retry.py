"""The retries of one request whose upstream restarts or ends before it answers."""

from typing import Any

from twisted.internet.defer import Deferred

from svcserver.edge.verdicts import Forward, Record, Unreachable
from svcserver.http.connection import MAX_BACKLOG
from svcserver.http.heads import RequestHead

MOST_TRIES = 3
MAX_KEPT = MAX_BACKLOG  # maximum bytes of a body kept for a retry
_SAFE = (b"GET", b"HEAD")  # safe to retry even without a request id


class Retry:
    """The state of a request's retries, and the decision whether to try again."""

    __slots__ = ("_first_lost", "_forward", "_head", "_parked", "_parked_at", "_record", "body")

    def __init__(self, head: RequestHead, forward: Forward, record: Record) -> None:
        self._head, self._forward, self._record = head, forward, record
        # the bytes of the body that were sent; None if they must not be sent again
        self.body = bytearray() if forward.repeatable else None
        self._parked: Deferred[None] | None = None  # set while waiting for an upstream
        self._parked_at: float | None = None
        self._first_lost: Any = None  # the pool of the connection that was lost

    def count(self) -> int:
        """Count an attempt; return its number, or 1 if the request has no id."""
        self._record.tries += 1
        return self._record.tries if self._forward.repeatable else 1

    def keep(self, part: bytes) -> None:
        """Store a part of the body for a retry, unless the body is above ``MAX_KEPT`` bytes."""
        if self.body is not None:
            self.body += part
            if len(self.body) > MAX_KEPT:
                self.body = None

    @property
    def may_be_done(self) -> bool:
        """True if an upstream may have executed the request.

        Then the client must not repeat the request, because the repetition would have a new id.
        """
        return self._record.tries > 0 and self._head.method not in _SAFE

    def is_allowed(self, ended: Any, *, repeats: bool) -> bool:
        """Return whether to retry, after a connection was closed without an answer.

        ``ended`` is the connection. With ``repeats``, the request may be sent ``MOST_TRIES`` times.
        Otherwise one retry is allowed if ``ended`` had served earlier requests, because then the
        upstream may have closed it as idle.
        """
        most = MOST_TRIES if repeats else 1 + ended.used
        if self._record.tries >= most:
            return False
        needs_body = self._head.method not in _SAFE or self._head.has_body
        # a request that was lost with two processes may have crashed them
        if needs_body and (self.body is None or self._first_lost not in (None, ended.pool)):
            return False
        self._first_lost = ended.pool
        return True

    def wait(self, error: Unreachable, now: float) -> Deferred[None]:
        """Return a Deferred that fires when a retry is possible, or fails with Unreachable."""
        length = self._head.length
        in_memory = MAX_BACKLOG if length is None else min(length, MAX_BACKLOG)
        parked = self._forward.upstream.wait(error, in_memory, self._parked_at, self._record.peer)
        if self._parked_at is None:
            self._parked_at = now
        self._parked = parked
        return parked.addBoth(self._unparked)

    def _unparked(self, result: Any) -> Any:
        self._parked = None
        return result

    def cancel(self) -> None:
        """Stop waiting, because no client needs the answer any more."""
        if self._parked is not None:
            self._parked.cancel()
