"""The history of load figures: data shapes, transactions, table and routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict

import sqlalchemy as sa
from attrs import define, field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.owner.figures import rules
from svcserver.metagame.owner.health.rules import Counts, upper_bound
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


class FiguresOverTime(TypedDict):
    """Figures over time; each list has one value for each span of ``stepSeconds``.

    ``at`` has the start times of the spans (epoch seconds). Spans in which no metagame ran are
    missing. Event-loop and memory values are those of the process with the highest value.
    """

    range: str
    stepSeconds: int
    since: int
    now: float
    at: list[int]
    requestsPerSecond: list[float]
    latencyP50UpperMs: list[int | str | None]
    latencyP95UpperMs: list[int | str | None]
    clientErrors: list[int]
    serverErrors: list[int]
    aborted: list[int]
    loopP95Ms: list[float | None]
    loopMaxMs: list[float | None]
    rssMB: list[float | None]
    players: list[float]
    playersMost: list[int]


def show_spans(
    scope: rules.Range, stored: Sequence[rules.StoredSpan], now: float
) -> FiguresOverTime:
    """Return each figure as a list with one value for each time span."""
    spans = [entry.span for entry in stored]
    counts = [span.counts for span in spans]
    return {
        "range": scope.value,
        "stepSeconds": scope.step_s,
        "since": int(now) - scope.seconds,
        "now": now,
        "at": [entry.at for entry in stored],
        "requestsPerSecond": [_rate(entry, now) for entry in stored],
        "latencyP50UpperMs": [upper_bound(count.latencies, 0.50) for count in counts],
        "latencyP95UpperMs": [upper_bound(count.latencies, 0.95) for count in counts],
        "clientErrors": [count.client_errors for count in counts],
        "serverErrors": [count.server_errors for count in counts],
        "aborted": [count.aborted for count in counts],
        "loopP95Ms": [span.loop_p95_ms or None for span in spans],
        "loopMaxMs": [span.loop_longest_ms or None for span in spans],
        "rssMB": [span.rss_mb or None for span in spans],
        "players": [round(span.players_sum / max(1, span.samples), 1) for span in spans],
        "playersMost": [span.players_most for span in spans],
    }


def _rate(stored: rules.StoredSpan, now: float) -> float:
    seconds = min(stored.step_s, max(1.0, now - stored.at))
    return round(stored.span.counts.completed / seconds, 3)


@define(eq=False)
class Figures:
    """The figures that this process collects, and the stored figures of all processes."""

    ledger: Ledger
    wall_clock: Callable[[], float]
    gathering: rules.Gathering = field(factory=rules.Gathering, init=False)
    _tidied: int = field(default=0, init=False)  # the hour of the last cleanup

    def write(self) -> Deferred[None]:
        """Store the collected figures in one transaction.

        After an error, the figures are dropped. The commit may have succeeded nevertheless, and a
        second attempt would then count the figures twice.
        """
        gathered, hour = self.gathering.taken(), rules.start(self.wall_clock(), rules.HOUR_S)
        if not gathered:
            return succeed(None)
        tidies, self._tidied = hour != self._tidied, hour

        def work(tx: sa.Connection) -> None:
            store = SqlFigures(tx)
            store.add(gathered)
            if tidies:
                store.forget_old(int(self.wall_clock()))

        return self.ledger.write(work, ACROSS)

    async def read_spans(self, scope: rules.Range) -> list[rules.StoredSpan]:
        """Return the time spans of a range, including the unfinished one."""

        def work(tx: sa.Connection) -> list[rules.StoredSpan]:
            now = int(self.wall_clock())
            since = rules.start(now - scope.seconds, scope.step_s)
            return SqlFigures(tx).since(scope.step_s, since, now)

        return await self.ledger.read_snapshot(work)


def figures_watch(figures: Figures, clock: IReactorTime) -> Every:
    """Return the service that stores the figures every minute, and once more when it stops."""
    return Every(
        clock, rules.MINUTE_S, figures.write, "writing the figures of a minute", at_end=True
    )


ADDED = (
    "completed",
    "client_errors",
    "server_errors",
    "aborted",
    *rules.columns(),
    "samples",
    "players_sum",
)
HIGHEST = ("players_most", "loop_p95_ms", "loop_longest_ms", "rss_mb")
FIGURES = sa.Table(
    "figures",
    METADATA,
    sa.Column("step_s", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),  # epoch seconds
    *(sa.Column(name, sa.BigInteger, nullable=False) for name in ADDED),
    sa.Column("players_most", sa.Integer, nullable=False),
    *(sa.Column(name, sa.Float, nullable=False) for name in HIGHEST[1:]),
)
_F = FIGURES.c
_ADD = Upsert(FIGURES, added=ADDED, highest=HIGHEST)
_OLD = sa.delete(FIGURES).where(
    _F.step_s == sa.bindparam("step"),
    sa.or_(_F.at < sa.bindparam("before"), _F.at > sa.bindparam("later")),
)
_SINCE = (
    sa.select(FIGURES)
    .where(
        _F.step_s == sa.bindparam("step"),
        _F.at >= sa.bindparam("since"),
        _F.at <= sa.bindparam("until"),
    )
    .order_by(_F.at)
)


@frozen
class SqlFigures:
    """The table of figures, within one open transaction."""

    tx: sa.Connection

    def add(self, gathered: Sequence[rules.StoredSpan]) -> None:
        """Combine this process's figures with those in the table, which all processes share."""
        _ADD.put(self.tx, [_row(stored) for stored in gathered])

    def forget_old(self, now: int) -> None:
        """Delete expired time spans, and those that a wrong clock dated in the future."""
        for step, kept_s in rules.KEPT_S.items():
            self.tx.execute(
                _OLD, {"step": step, "before": now - kept_s, "later": now + rules.DAY_S}
            )

    def since(self, step_s: int, at: int, now: int) -> list[rules.StoredSpan]:
        """Return the spans of ``step_s`` seconds that began at ``at`` or later, oldest first."""
        values = {"step": step_s, "since": at, "until": now}
        return [_build_span(row) for row in self.tx.execute(_SINCE, values)]


def _row(stored: rules.StoredSpan) -> dict[str, int | float]:
    span = stored.span
    counts = span.counts
    return {
        "step_s": stored.step_s,
        "at": stored.at,
        "completed": counts.completed,
        "client_errors": counts.client_errors,
        "server_errors": counts.server_errors,
        "aborted": counts.aborted,
        **dict(zip(rules.columns(), counts.latencies, strict=True)),
        "samples": span.samples,
        "players_sum": span.players_sum,
        "players_most": span.players_most,
        "loop_p95_ms": span.loop_p95_ms,
        "loop_longest_ms": span.loop_longest_ms,
        "rss_mb": span.rss_mb,
    }


def _build_span(row: sa.Row[Any]) -> rules.StoredSpan:
    latencies = [getattr(row, name) for name in rules.columns()]
    counts = Counts(row.completed, row.client_errors, row.server_errors, row.aborted, latencies)
    worst = row.players_most, row.loop_p95_ms, row.loop_longest_ms, row.rss_mb
    return rules.StoredSpan(
        row.step_s, row.at, rules.FigureSpan(counts, row.samples, row.players_sum, *worst)
    )


@frozen
class FigureRoutes:
    """The route that returns the load figures of a period."""

    routes: ClassVar[Routes] = Routes(worded)
    figures: Figures
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardFigures",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        when=lambda settings: settings.backend_health,
        reply=FiguresOverTime,
        query={"range": rules.Range},
        quiet=True,
    )
    async def over_time(self, call: Call) -> Answer:
        """Return the load figures of an hour, a day, a week or eight weeks.

        The reply has a value for each minute of an hour or a day, for each hour of a week, or for
        each day of eight weeks.
        """
        await self.reads.take_of(call)
        try:
            scope = rules.Range(call.request.argument("range") or rules.Range.HOUR)
        except ValueError:
            raise Malformed("range must be hour, day, week or weeks", code="bad_request") from None
        stored = await self.figures.read_spans(scope)
        return Answer(200, show_spans(scope, stored, self.figures.wall_clock()), NO_STORE)
