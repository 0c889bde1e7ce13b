"""The reply shape of the health route. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import TypedDict

from svcserver.metagame.owner.health.rules import WINDOW_S, Counts, Health, LoopFigures, upper_bound


class RequestReply(TypedDict):
    """The requests of the last minute."""

    windowSeconds: int
    completed: int
    clientErrors: int
    serverErrors: int
    aborted: int
    requestsPerSecond: float
    serverErrorPercent: float
    latencyP50UpperMs: int | str | None
    latencyP95UpperMs: int | str | None


class LoopReply(TypedDict):
    """By how much a timer of 20 ms comes late, which shows how busy the server is."""

    p50Ms: float
    p95Ms: float
    maxMs: float


class BansReply(TypedDict):
    """Bans, which are not supported."""

    supported: bool
    count: int | None


class BackendHealthReply(TypedDict):
    """How busy this process is.

    Memory in MiB, null where the system does not say; ``eventLoop`` is null before a sample.
    """

    uptimeSeconds: int
    memoryMB: dict[str, float | None]
    requests: RequestReply
    eventLoop: LoopReply | None
    bans: BansReply


class BriefReply(TypedDict):
    """What the dashboard's overview shows of it."""

    memoryMB: dict[str, int | None]
    requests: RequestReply
    eventLoop: LoopReply | None


def show_requests(seen: Counts) -> RequestReply:
    """The figures of the last minute."""
    failed = 100 * seen.server_errors / seen.completed if seen.completed else 0.0
    return {
        "windowSeconds": WINDOW_S,
        "completed": seen.completed,
        "clientErrors": seen.client_errors,
        "serverErrors": seen.server_errors,
        "aborted": seen.aborted,
        "requestsPerSecond": round(seen.completed / WINDOW_S, 3),
        "serverErrorPercent": round(failed, 1),
        "latencyP50UpperMs": upper_bound(seen.latencies, 0.50),
        "latencyP95UpperMs": upper_bound(seen.latencies, 0.95),
    }


def show_brief(health: Health, rss_mb: float | None, now: float) -> BriefReply:
    """The figures of this moment; ``rss_mb`` is None where the system does not say."""
    return {
        "memoryMB": {"rss": None if rss_mb is None else round(rss_mb)},
        "requests": show_requests(health.requests.last_minute(now)),
        "eventLoop": show_loop(health.loop.report()),
    }


def show_loop(loop: LoopFigures | None) -> LoopReply | None:
    """The event loop's delays, if there was a sample."""
    if loop is None:
        return None
    return {"p50Ms": loop.p50, "p95Ms": loop.p95, "maxMs": loop.longest}
