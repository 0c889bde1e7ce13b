"""Counts and percentiles of the last minute. Spec: 2 §4 BackendHealth.

``now`` is in epoch seconds. Memory does not grow with the number of requests.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import TypedDict

from attrs import define, field

WINDOW_S = 60
BOUNDS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
BEYOND = ">5000"
SAMPLE_S = 0.02
MAX_SAMPLES = int(WINDOW_S / SAMPLE_S)


class RequestFigures(TypedDict):
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


class LoopFigures(TypedDict):
    """The measured intervals of a 20 ms timer, which show how busy the event loop is."""

    p50Ms: float
    p95Ms: float
    maxMs: float


@define
class Counts:
    """Counts over a span of time; ``latencies`` has a count per bound, and one beyond."""

    completed: int = 0
    client_errors: int = 0
    server_errors: int = 0
    aborted: int = 0
    latencies: list[int] = field(factory=lambda: [0] * (len(BOUNDS_MS) + 1))

    def note(self, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.completed += 1
        self.client_errors += 400 <= status < 500
        self.server_errors += status >= 500
        self.latencies[bisect_left(BOUNDS_MS, seconds * 1000)] += 1

    def add(self, other: Counts) -> None:
        """Add the counts of ``other``."""
        self.completed += other.completed
        self.client_errors += other.client_errors
        self.server_errors += other.server_errors
        self.aborted += other.aborted
        self.latencies = [a + b for a, b in zip(self.latencies, other.latencies, strict=True)]


@define
class Requests:
    """Counts per second of the last minute, and since the start."""

    since_start: Counts = field(factory=Counts, init=False)
    _buckets: dict[int, Counts] = field(factory=dict, init=False)

    def note(self, status: int, seconds: float, now: float) -> None:
        """Count an answered request that took ``seconds``."""
        self._bucket(now).note(status, seconds)
        self.since_start.note(status, seconds)

    def note_aborted(self, now: float) -> None:
        """Count a request whose client closed before the reply was finished."""
        self._bucket(now).aborted += 1
        self.since_start.aborted += 1

    def report(self, now: float) -> RequestFigures:
        """The figures of the last minute."""
        self._drop(now)
        seen = Counts()
        for bucket in self._buckets.values():
            seen.add(bucket)
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

    def _bucket(self, now: float) -> Counts:
        second = math.floor(now)
        bucket = self._buckets.get(second)
        if bucket is None:
            self._drop(now)
            bucket = self._buckets[second] = Counts()
        return bucket

    def _drop(self, now: float) -> None:
        # future ones, too: after the clock was set back, old counts would stay
        kept = range(math.floor(now) - WINDOW_S + 1, math.floor(now) + 1)
        for second in [one for one in self._buckets if one not in kept]:
            del self._buckets[second]


@define
class LoopDelays:
    """The last minute's intervals between ticks of a 20 ms timer."""

    _ms: deque[float] = field(factory=lambda: deque(maxlen=MAX_SAMPLES), init=False)

    def note(self, seconds: float) -> None:
        """Keep one interval; a negative one, after the clock was set back, counts as 0."""
        self._ms.append(max(0.0, seconds) * 1000)

    def report(self) -> LoopFigures | None:
        """The figures; None before the first sample."""
        if not self._ms:
            return None
        ordered = sorted(self._ms)
        return {
            "p50Ms": round(ordered[rank(len(ordered), 0.50) - 1], 1),
            "p95Ms": round(ordered[rank(len(ordered), 0.95) - 1], 1),
            "maxMs": round(ordered[-1], 1),
        }


@define
class Health:
    """All health figures of a process."""

    requests: Requests = field(factory=Requests, init=False)
    loop: LoopDelays = field(factory=LoopDelays, init=False)


def upper_bound(latencies: Sequence[int], share: float) -> int | str | None:
    """The bound in ms below which ``share`` of the requests are; None without any."""
    count = sum(latencies)
    if count == 0:
        return None
    wanted, seen = rank(count, share), 0
    for bound, here in zip(BOUNDS_MS, latencies, strict=False):
        seen += here
        if seen >= wanted:
            return bound
    return BEYOND


def rank(count: int, share: float) -> int:
    """The position, from 1, of the ``share`` quantile among ``count`` ordered values."""
    return max(1, math.ceil(round(count * share, 9)))
