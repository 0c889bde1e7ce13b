"""All threads of a pool end when the pool is stopped."""

from typing import Any, cast

from attrs import define, field
from sqlalchemy import create_engine
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.thread_pool import Run, ThreadPool


@define(eq=False)
class QuickThread:
    """A fake thread that ends as soon as its queue holds a stop message."""

    pool: ThreadPool
    ended: bool = field(default=False, init=False)

    def is_alive(self) -> bool:
        self.look()
        return not self.ended

    def look(self) -> None:
        queue = self.pool._queue
        if not self.ended and not queue.empty():
            assert queue.get_nowait() is None
            self.ended = True

    def join(self) -> None:
        """Fail where joining a real thread would block forever."""
        self.look()
        assert self.ended, "nobody has told it to end"


class StopTests(SynchronousTestCase):
    def test_a_stop_reaches_all_threads_though_some_end_at_once(self) -> None:
        run = cast(Run, None)
        pool = ThreadPool("a", 0, create_engine("sqlite://"), run, Clock(), lambda outcomes: None)
        threads: Any = [QuickThread(pool) for _ in range(3)]
        pool.threads = threads
        pool.stop()
        self.assertEqual([thread.ended for thread in threads], [True] * 3)
