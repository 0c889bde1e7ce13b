"""A queue for each account, which runs the account's jobs one after the other.

On SQLite, one thread does all reads. Without these queues, eight large reads of one account would
delay all log-ins. With the queues, jobs of other accounts run between the reads.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred

from svcserver.db.shield import apart
from svcserver.kernel.refusals import TooMany

T = TypeVar("T")
MAX_WAITING = 32  # per account; a client sends fewer than ten concurrent requests


@define
class Turns:
    """A job queue for each key; ``most`` is the maximum number of waiting jobs."""

    most: int = MAX_WAITING
    _waiting: dict[str, deque[Deferred[None]]] = field(factory=dict, init=False, repr=False)

    async def run(self, key: str, job: Callable[[], Deferred[T]]) -> T:
        """Start ``job`` as soon as no other job runs for ``key``, and return its result.

        Raises TooMany if the queue is full. If the caller is cancelled before the job has started,
        the job is removed from the queue. A job that has started runs to its end, even if its
        caller is cancelled; the next job waits for it.
        """
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
        elif len(waiting) >= self.most:
            raise TooMany("too many requests at once", retry_after_s=1)
        else:
            turn: Deferred[None] = Deferred(waiting.remove)
            waiting.append(turn)
            await turn
        return await apart(maybeDeferred(job).addBoth(self._passed_on, key), "a job in its turn")

    def _passed_on(self, result: Any, key: str) -> Any:
        self._next(key)
        return result

    def _next(self, key: str) -> None:
        if waiting := self._waiting[key]:
            waiting.popleft().callback(None)
        else:
            del self._waiting[key]

    def __len__(self) -> int:
        return len(self._waiting)
