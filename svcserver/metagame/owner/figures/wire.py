"""The reply shape of the figures over time: a list for each figure, all of one length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from svcserver.metagame.owner.figures.rules import Kept, Range
from svcserver.metagame.owner.health.rules import upper_bound


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
