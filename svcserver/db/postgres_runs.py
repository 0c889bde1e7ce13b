"""Classes that run jobs on PostgreSQL: several jobs in one transaction, or a single job.

The threads of a pool call these objects, each thread with its own connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import sqlalchemy as sa
from attrs import field, frozen
from psycopg import pq
from twisted.python.failure import Failure

from svcserver.db.fast_execute import Plans
from svcserver.db.ledger import OneAccount
from svcserver.db.pipeline import Command, CommandFailed, ConnectionGone, Pipeline, Unsure
from svcserver.db.pipelined import DIALECT, Spoilt, together
from svcserver.db.thread_pool import Job, Outcomes
from svcserver.db.transaction import Tries

LATER: Final = object()  # the outcome of a job that must be run alone
READ = Command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
COMMITTED = Command("BEGIN ISOLATION LEVEL READ COMMITTED")
SERIALIZABLE = Command("BEGIN ISOLATION LEVEL SERIALIZABLE")


Results = Sequence[Any]


@frozen
class ReadRuns:
    """The runner of reads; all jobs of a batch read the same snapshot of the database."""

    most: ClassVar[int] = 128

    def __call__(self, pipeline: Pipeline, plans: Plans, batch: list[Job]) -> Outcomes:
        """Run the jobs in one read-only transaction and return their outcomes."""

        def run(jobs: Sequence[Job]) -> Results:
            pipeline.begin(READ)
            results = together(pipeline, plans, [job.work for job in jobs])
            pipeline.end_reading()
            return results

        return _without_those_that_fail(pipeline, batch, run, lambda failure: failure)


@frozen
class AccountLock:
    """The locks on account rows; ``column`` is the column with the account ids."""

    column: sa.Column[Any]
    together: str = field(init=False)
    single: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        rows = sa.select(self.column)
        some = rows.where(self.column == sa.any_(sa.bindparam("ids", type_=sa.ARRAY(sa.String))))
        single = rows.where(self.column == sa.bindparam("wanted"))
        # key_share: as strong as an update, but foreign keys may still refer to the row
        object.__setattr__(self, "together", _sql(some, skip_locked=True))
        object.__setattr__(self, "single", _sql(single))

    def take(self, pipeline: Pipeline, jobs: Sequence[Job]) -> set[str]:
        """Lock the jobs' accounts; return the ids of the accounts that are now locked.

        An account that another transaction has locked is skipped.
        """
        ids = [_account(job) for job in jobs]
        return self._held(
            pipeline,
            self.together,
            _array([account_id for account_id in ids if "\0" not in account_id]),
        )

    def wait_for(self, pipeline: Pipeline, job: Job) -> bool:
        """Wait for and take the lock on the job's account; return whether the account exists."""
        account = _account(job)
        return "\0" not in account and bool(self._held(pipeline, self.single, account))

    def _held(self, pipeline: Pipeline, sql: str, value: str) -> set[str]:
        [result] = pipeline.exchange([Command(sql, [value.encode()], [pq.Format.TEXT])])
        return {row[0] for row in pipeline.rows(result, tuple)}


@frozen
class AccountRuns:
    """The runner of jobs that each write one account; the jobs of a batch share one transaction."""

    most: ClassVar[int] = 64
    again: Callable[[], None]
    lock: AccountLock | None

    def __call__(self, pipeline: Pipeline, plans: Plans, batch: list[Job]) -> Outcomes:
        """Run the jobs and return their outcomes.

        If a job cannot run in this batch, its outcome is LATER, and it must run alone.
        """
        lock = self.lock
        if lock is None:
            return [(job, LATER) for job in batch]

        def run(jobs: Sequence[Job]) -> Results:
            pipeline.begin(COMMITTED)
            held = lock.take(pipeline, jobs)
            works = [job.work if _account(job) in held else _later for job in jobs]
            results = together(pipeline, plans, works)
            pipeline.commit()
            return results

        def judged(failure: Failure) -> Any:
            if not Tries().counts(failure.value):
                return failure
            self.again()
            return LATER

        return _without_those_that_fail(pipeline, batch, run, judged)


@frozen
class SingleRuns:
    """The runner of single jobs; after a conflict with another transaction, a job runs again.

    A job runs as SERIALIZABLE if it depends on several accounts, or if its account does not exist.
    """

    most: ClassVar[int] = 1
    again: Callable[[], None]
    lock: AccountLock | None

    def __call__(self, pipeline: Pipeline, plans: Plans, batch: list[Job]) -> Outcomes:
        """Run each job in its own transaction and return the outcomes."""
        return [(job, self._run(pipeline, plans, job)) for job in batch]

    def _run(self, pipeline: Pipeline, plans: Plans, job: Job) -> Any:
        tries, broke = Tries(), False
        while True:
            try:
                result = self._once(pipeline, plans, job)
            except Unsure as why:
                return Failure(why.error)
            except ConnectionGone as why:
                if broke:
                    return Failure(why.error)
                broke = True
                continue
            except Spoilt as why:
                [result] = why.by.values()
            except CommandFailed as why:
                result = Failure(why.error)
            if not isinstance(result, Failure):
                return result
            pipeline.roll_back()
            if not tries.again(result.value):
                return result
            self.again()

    def _once(self, pipeline: Pipeline, plans: Plans, job: Job) -> Any:
        pipeline.begin(COMMITTED)
        if not self._locked(pipeline, job):
            pipeline.roll_back()
            pipeline.begin(SERIALIZABLE)
        [result] = together(pipeline, plans, [job.work])
        if not isinstance(result, Failure):
            pipeline.commit()
        return result

    def _locked(self, pipeline: Pipeline, job: Job) -> bool:
        mine = isinstance(job.scope, OneAccount)
        return mine and self.lock is not None and self.lock.wait_for(pipeline, job)


def _without_those_that_fail(
    pipeline: Pipeline,
    batch: list[Job],
    run: Callable[[Sequence[Job]], Results],
    judged: Callable[[Failure], Any],
) -> Outcomes:
    """Run the jobs together; if some fail, run the others again. Return all outcomes."""
    outcomes: Outcomes = []
    broke = False
    while batch:
        try:
            return [*outcomes, *zip(batch, run(batch), strict=True)]
        except Spoilt as why:
            pipeline.roll_back()
            outcomes += [(batch[at], judged(failure)) for at, failure in why.by.items()]
            batch = [job for at, job in enumerate(batch) if at not in why.by]
        except CommandFailed as why:
            pipeline.roll_back()
            failure = Failure(why.error)
            return [*outcomes, *((job, judged(failure)) for job in batch)]
        except ConnectionGone as why:
            if broke or isinstance(why, Unsure):
                failure = Failure(why.error)
                return [*outcomes, *((job, failure) for job in batch)]
            broke = True
    return outcomes


def _sql(rows: sa.Select[Any], *, skip_locked: bool = False) -> str:
    locked = rows.with_for_update(key_share=True, skip_locked=skip_locked)
    return str(locked.compile(dialect=DIALECT))


def _later(tx: Any) -> Any:
    return LATER


def _account(job: Job) -> str:
    return job.scope.account_id if isinstance(job.scope, OneAccount) else ""


def _array(texts: Sequence[str]) -> str:
    """Return strings in PostgreSQL's array syntax."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"
