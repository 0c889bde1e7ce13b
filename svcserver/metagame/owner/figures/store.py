"""The table of figures: a row for each minute, hour and day that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
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

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.metagame.owner.figures.rules import DAY_S, KEPT_S, Kept, Span, columns
from svcserver.metagame.owner.health.rules import Counts

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
