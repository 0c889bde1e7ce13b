"""Threads that share a queue; each has its own connection and takes jobs in batches."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

from attrs import define, field
from sqlalchemy import Engine
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from svcserver.db.fast_execute import Plans
from svcserver.db.ledger import Scope, Work
from svcserver.db.pipeline import Pipeline
from svcserver.db.pipelined import MAX_LIST


@define(eq=False)
class Job:
    """A job that the ledger has accepted; see ``Ledger.write``."""

    pool: ThreadPool
    work: Work[Any]
    scope: Scope
    done: Deferred[Any] = field(factory=Deferred)


Outcomes = list[tuple[Job, Any]]


class Run(Protocol):
    """A function that runs a batch of jobs in a thread; ``most`` limits the size of the batch."""

    @property
    def most(self) -> int: ...

    def __call__(self, pipeline: Pipeline, plans: Plans, batch: list[Job]) -> Outcomes: ...


class ThreadPool:
    """A pool of ``count`` threads, each with its own connection."""

    def __init__(
        self,
        name: str,
        count: int,
        engine: Engine,
        run: Run,
        reactor: Any,
        deliver: Callable[[Outcomes], None],
    ) -> None:
        self._engine, self._run, self._reactor, self._deliver = engine, run, reactor, deliver
        self._gathered: list[Job] = []
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self.threads = [
            Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        """Start the threads, which take jobs until ``stop`` is called."""
        for thread in self.threads:
            thread.start()

    def take(self, job: Job) -> None:
        """Queue a job; all jobs of one reactor iteration are passed to the threads together."""
        self._gathered.append(job)
        if len(self._gathered) == 1:
            self._reactor.callLater(0, self._hand_over)

    def stop(self) -> None:
        """Make the threads end after the queued jobs, and wait until all have ended."""
        alive = [thread for thread in self.threads if thread.is_alive()]
        # a second loop: after the first sentinel, a thread may end before ``is_alive`` is called
        for _ in alive:
            self._queue.put(None)
        for thread in alive:
            thread.join()

    def _hand_over(self) -> None:
        jobs, self._gathered = self._gathered, []
        most = self._run.most
        for start in range(0, len(jobs), most):
            self._queue.put(jobs[start : start + most])

    # -- below: the threads ---------------------------------------------------

    def _work(self) -> None:
        pipeline, plans = Pipeline(self._engine), Plans(MAX_LIST)
        while (batch := self._queue.get()) is not None:
            while len(batch) < self._run.most:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                if more is None:
                    self._queue.put(None)
                    break
                batch += more
            try:
                outcomes = self._run(pipeline, plans, batch)
            except Exception:
                failure = Failure()
                pipeline.close()
                outcomes = [(job, failure) for job in batch]
            self._reactor.callFromThread(self._deliver, outcomes)
        pipeline.close()
