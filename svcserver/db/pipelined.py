"""Runs several jobs in one transaction, and sends their statements together in few round trips.

Each job runs in a greenlet until it executes a statement. Then the statements of all jobs are sent
together, and each job continues with the result of its own statement. A job need not know that
others use the connection.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from greenlet import getcurrent, greenlet
from psycopg import pq
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from twisted.python.failure import Failure

from svcserver.db.fast_execute import ExecutionPlan, Plans, Rows
from svcserver.db.ledger import Work
from svcserver.db.pipeline import Command, CommandFailed, ConnectionGone, Pipeline, encoded

MAX_LIST = 512  # values of an expanding list, rounded up to a power of two
DIALECT = PGDialect_psycopg(paramstyle="numeric_dollar")


class Spoilt(Exception):
    """The error if failed jobs make a rollback necessary; ``by`` maps their indexes to failures."""

    def __init__(self, by: Mapping[int, Failure]) -> None:
        super().__init__(f"{len(by)} failed")
        self.by = by


class PipelinedConnection:
    """A SQLAlchemy connection whose statements are sent together with those of other jobs."""

    def __init__(self, pipeline: Pipeline, plans: Plans) -> None:
        self._pipeline, self._plans = pipeline, plans
        self.wrote = False
        self.dialect = pipeline.dialect

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        """Execute like ``Connection.execute``, but fetch all rows immediately."""
        many = isinstance(parameters, list)
        sets = [_padded(values) for values in parameters] if many else [_padded(parameters or {})]
        plan = self._plans.plan_for(statement, sets[0], DIALECT) if sets else None
        commands = None if plan is None or (many and plan.row) else _commands(plan, sets)
        if plan is None or commands is None:
            self.wrote = self.wrote or not getattr(statement, "is_select", False)
            return self._pipeline.plainly(lambda tx: tx.execute(statement, parameters))
        self.wrote = self.wrote or plan.writes
        results = getcurrent().parent.switch(commands)
        rows = self._pipeline.rows(results[0], plan.row)
        return Rows(rows, sum(result.command_tuples or 0 for result in results))

    def exec_driver_sql(self, statement: str, parameters: Any = None) -> Any:
        """Run a statement alone, outside pipeline mode."""
        self.wrote = True  # the statement may have written
        return self._pipeline.plainly(lambda tx: tx.exec_driver_sql(statement, parameters))


@define
class _Job:
    """A job that waits for the results of its commands."""

    at: int
    tx: PipelinedConnection
    greenlet: Any
    commands: list[Command] = field(factory=list)


@define
class _Together:
    """The jobs of a batch, which run concurrently and send their commands together."""

    pipeline: Pipeline
    plans: Plans
    results: list[Any] = field(factory=list)
    spoilt: dict[int, Failure] = field(factory=dict)
    runs: list[_Job] = field(factory=list)  # runs that wait
    greenlets: list[Any] = field(factory=list)

    def begin(self, works: Sequence[Work[Any]]) -> None:
        """Run each job until it waits for the results of its first commands."""
        self.results = [None] * len(works)
        for at, work in enumerate(works):
            tx = PipelinedConnection(self.pipeline, self.plans)
            run = _Job(at, tx, greenlet(_outcome))
            self.greenlets.append(run.greenlet)
            self._take(run, run.greenlet.switch(work, tx))

    def exchange(self) -> None:
        """Send all commands in one round trip, then run each job until it waits again."""
        runs, self.runs = self.runs, []
        try:
            answers = self.pipeline.exchange([command for run in runs for command in run.commands])
        except CommandFailed as why:
            run = _whose(runs, why.at)
            outcome = run.greenlet.throw(why.error)
            failure = outcome if isinstance(outcome, Failure) else Failure(why.error)
            raise Spoilt({run.at: failure}) from why
        begin = 0
        for run in runs:
            end = begin + len(run.commands)
            self._take(run, run.greenlet.switch(answers[begin:end]))
            begin = end

    def end(self) -> None:
        """Stop the jobs that have not ended, after a job or the connection has failed."""
        for waiting in self.greenlets:
            if not waiting.dead:
                waiting.throw()

    def _take(self, run: _Job, outcome: Any) -> None:
        if not run.greenlet.dead:
            run.commands = outcome
            self.runs.append(run)
            return
        self.results[run.at] = outcome
        if not isinstance(outcome, Failure):
            return
        if outcome.check(ConnectionGone):
            outcome.raiseException()
        if run.tx.wrote or self.pipeline.failed:
            self.spoilt[run.at] = outcome
        if self.pipeline.failed:
            raise Spoilt(self.spoilt)


def together(pipeline: Pipeline, plans: Plans, works: Sequence[Work[Any]]) -> list[Any]:
    """Run the jobs together; return each job's result or Failure.

    Raises Spoilt if the transaction must be rolled back, and ConnectionGone if the connection
    broke.
    """
    pieces = _Together(pipeline, plans)
    try:
        pieces.begin(works)
        while pieces.runs:
            pieces.exchange()
    finally:
        pieces.end()
    if pieces.spoilt:
        raise Spoilt(pieces.spoilt)
    return pieces.results


def _outcome(work: Work[Any], tx: Any) -> Any:
    try:
        return work(tx)
    except Exception:
        return Failure()


def _whose(runs: Sequence[_Job], at: int) -> _Job:
    """Return the job whose command has this index in the batch of commands."""
    for run in runs:
        if at < len(run.commands):
            return run
        at -= len(run.commands)
    return runs[-1]


def _padded(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lengthen each list to the next power of two by repeating its last value.

    A repeated value does not change the result of an ``IN``. Few different lengths mean few
    different statements, so their plans can be reused.
    """
    lists = {name: value for name, value in parameters.items() if type(value) is list and value}
    if not lists:
        return parameters
    longer = {
        name: value + value[-1:] * ((1 << (len(value) - 1).bit_length()) - len(value))
        for name, value in lists.items()
    }
    return {**parameters, **longer}


def _commands(plan: ExecutionPlan, sets: Sequence[Mapping[str, Any]]) -> list[Command] | None:
    commands = []
    for parameters in sets:
        values: list[bytes | None] = []
        formats: list[pq.Format] = []
        for value in plan.values(parameters):
            sent = encoded(value)
            if sent is None:
                return None
            values.append(sent[0])
            formats.append(sent[1])
        commands.append(Command(plan.sql, values, formats))
    return commands
