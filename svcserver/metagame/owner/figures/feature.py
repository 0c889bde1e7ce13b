"""The figures of past days: shapes, acts, table and routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    Row,
    Table,
    bindparam,
    delete,
    or_,
    select,
)
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.owner.figures.rules import (
    DAY_S,
    HOUR_S,
    KEPT_S,
    MINUTE_S,
    Gathering,
    Kept,
    Range,
    Span,
    columns,
    start,
)
from svcserver.metagame.owner.health.rules import Counts, upper_bound
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


class FiguresOverTime(TypedDict):
    """Spans of ``stepSeconds``, a value each in every list; times in epoch seconds.

    ``at``: when each began; one in which no metagame ran is missing. The event loop's and the
    memory's are those of the worst moment and process.
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


def show(asked: Range, found: Sequence[Kept], now: float) -> FiguresOverTime:
    """The spans as lists; rates of the running span by how much of it is over."""
    spans = [one.span for one in found]
    counts = [one.counts for one in spans]
    return {
        "range": asked.value,
        "stepSeconds": asked.step_s,
        "since": int(now) - asked.seconds,
        "now": now,
        "at": [one.at for one in found],
        "requestsPerSecond": [_rate(one, now) for one in found],
        "latencyP50UpperMs": [upper_bound(one.latencies, 0.50) for one in counts],
        "latencyP95UpperMs": [upper_bound(one.latencies, 0.95) for one in counts],
        "clientErrors": [one.client_errors for one in counts],
        "serverErrors": [one.server_errors for one in counts],
        "aborted": [one.aborted for one in counts],
        "loopP95Ms": [one.loop_p95_ms or None for one in spans],
        "loopMaxMs": [one.loop_longest_ms or None for one in spans],
        "rssMB": [one.rss_mb or None for one in spans],
        "players": [round(one.players_sum / max(1, one.samples), 1) for one in spans],
        "playersMost": [one.players_most for one in spans],
    }


def _rate(one: Kept, now: float) -> float:
    seconds = min(one.step_s, max(1.0, now - one.at))
    return round(one.span.counts.completed / seconds, 3)


@define(eq=False)
class Figures:
    """What this process has gathered, and what all have written.

    ``wall_clock`` gives epoch seconds.
    """

    ledger: Ledger
    wall_clock: Callable[[], float]
    gathering: Gathering = field(factory=Gathering, init=False)
    _tidied: int = field(default=0, init=False)  # the hour in which old ones were last dropped

    def write(self) -> Deferred[None]:
        """Add what was gathered, in one transaction.

        What could not be written is left out, not tried again: nobody knows of a commit whose
        answer was lost, and no minute is to count twice.
        """
        gathered, hour = self.gathering.taken(), start(self.wall_clock(), HOUR_S)
        if not gathered:
            return succeed(None)
        tidies, self._tidied = hour != self._tidied, hour

        def work(tx: Connection) -> None:
            kept = SqlFigures(tx)
            kept.add(gathered)
            if tidies:
                kept.forget_old(int(self.wall_clock()))

        return self.ledger.write(work, ACROSS)

    async def read(self, asked: Range) -> list[Kept]:
        """The spans of the range, up to the running one."""

        def work(tx: Connection) -> list[Kept]:
            now = int(self.wall_clock())
            since = start(now - asked.seconds, asked.step_s)
            return SqlFigures(tx).since(asked.step_s, since, now)

        return await self.ledger.read(work)


def figures_watch(figures: Figures, clock: IReactorTime) -> Every:
    """The service that writes once a minute, and when it stops."""
    return Every(clock, MINUTE_S, figures.write, "writing the figures of a minute", at_end=True)


ADDED = (
    "completed",
    "client_errors",
    "server_errors",
    "aborted",
    *columns(),
    "samples",
    "players_sum",
)
HIGHEST = ("players_most", "loop_p95_ms", "loop_longest_ms", "rss_mb")
FIGURES = Table(
    "figures",
    METADATA,
    Column("step_s", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),  # epoch seconds
    *(Column(name, BigInteger, nullable=False) for name in ADDED),
    Column("players_most", Integer, nullable=False),
    *(Column(name, Float, nullable=False) for name in HIGHEST[1:]),
)
_F = FIGURES.c
_ADD = Upsert.into(FIGURES, added=ADDED, highest=HIGHEST)
_OLD = delete(FIGURES).where(
    _F.step_s == bindparam("step"), or_(_F.at < bindparam("before"), _F.at > bindparam("later"))
)
_SINCE = (
    select(FIGURES)
    .where(_F.step_s == bindparam("step"), _F.at >= bindparam("since"), _F.at <= bindparam("until"))
    .order_by(_F.at)
)


@frozen
class SqlFigures:
    """Figures in an open transaction."""

    tx: Connection

    def add(self, gathered: Sequence[Kept]) -> None:
        """Add to what this and other processes have counted in the same spans."""
        _ADD.put(self.tx, [_row(one) for one in gathered])

    def forget_old(self, now: int) -> None:
        """Drop what is kept no longer, and what a wrong clock wrote for later."""
        for step, kept_s in KEPT_S.items():
            self.tx.execute(_OLD, {"step": step, "before": now - kept_s, "later": now + DAY_S})

    def since(self, step_s: int, at: int, now: int) -> list[Kept]:
        """The spans of that length that began at that time or later, the oldest first."""
        asked = {"step": step_s, "since": at, "until": now}
        return [_kept(row) for row in self.tx.execute(_SINCE, asked)]


def _row(one: Kept) -> dict[str, int | float]:
    span = one.span
    counts = span.counts
    return {
        "step_s": one.step_s,
        "at": one.at,
        "completed": counts.completed,
        "client_errors": counts.client_errors,
        "server_errors": counts.server_errors,
        "aborted": counts.aborted,
        **dict(zip(columns(), counts.latencies, strict=True)),
        "samples": span.samples,
        "players_sum": span.players_sum,
        "players_most": span.players_most,
        "loop_p95_ms": span.loop_p95_ms,
        "loop_longest_ms": span.loop_longest_ms,
        "rss_mb": span.rss_mb,
    }


def _kept(row: Row[Any]) -> Kept:
    latencies = [getattr(row, name) for name in columns()]
    counts = Counts(row.completed, row.client_errors, row.server_errors, row.aborted, latencies)
    worst = row.players_most, row.loop_p95_ms, row.loop_longest_ms, row.rss_mb
    return Kept(row.step_s, row.at, Span(counts, row.samples, row.players_sum, *worst))


@frozen
class FigureRoutes:
    """The route of the figures over time."""

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
        query={"range": Range},
        quiet=True,
    )
    async def over_time(self, call: Call) -> Answer:
        """Figures over an hour or day (by minutes), week (by hours) or eight weeks (by days)."""
        await self.reads.take(call.request.peer)
        try:
            asked = Range(call.request.argument("range") or Range.HOUR)
        except ValueError:
            raise Malformed("range is hour, day, week or weeks", code="bad_request") from None
        found = await self.figures.read(asked)
        return Answer(200, show(asked, found, self.figures.wall_clock()), NO_STORE)
