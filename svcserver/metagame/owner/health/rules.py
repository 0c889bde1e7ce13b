"""Request counts, latencies and event-loop delays of the last minute. Spec: 2 §4 BackendHealth.

``now`` is in epoch seconds. These classes use a fixed amount of memory.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from attrs import define, field, frozen

WINDOW_S = 60
BOUNDS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
BEYOND = ">5000"
SAMPLE_S = 0.02
MAX_SAMPLES = int(WINDOW_S / SAMPLE_S)


@frozen
class LoopFigures:
    """Measured intervals of a 20 ms timer, in ms; long intervals mean a busy event loop."""

    p50: float
    p95: float
    longest: float


@define
class Counts:
    """Request counts of a span of time.

    ``latencies`` has a count for each latency bound, and a count for latencies above all bounds.
    """

    completed: int = 0
    client_errors: int = 0
    server_errors: int = 0
    aborted: int = 0
    latencies: list[int] = field(factory=lambda: [0] * (len(BOUNDS_MS) + 1))

    def note(self, status: int, seconds: float) -> None:
        self.completed += 1
        self.client_errors += 400 <= status < 500
        self.server_errors += status >= 500
        self.latencies[bisect_left(BOUNDS_MS, seconds * 1000)] += 1

    def add(self, more: Counts) -> None:
        self.completed += more.completed
        self.client_errors += more.client_errors
        self.server_errors += more.server_errors
        self.aborted += more.aborted
        self.latencies = [a + b for a, b in zip(self.latencies, more.latencies, strict=True)]

    def since(self, before: Counts) -> Counts:
        """Return these counts minus ``before``, an earlier copy of them."""
        return Counts(
            self.completed - before.completed,
            self.client_errors - before.client_errors,
            self.server_errors - before.server_errors,
            self.aborted - before.aborted,
            [a - b for a, b in zip(self.latencies, before.latencies, strict=True)],
        )


@define
class Requests:
    """Request counts: for each second of the last minute, and in total since the start."""

    since_start: Counts = field(factory=Counts, init=False)
    _buckets: dict[int, Counts] = field(factory=dict, init=False)

    def note(self, status: int, seconds: float, now: float) -> None:
        self._bucket(now).note(status, seconds)
        self.since_start.note(status, seconds)

    def note_aborted(self, now: float) -> None:
        """Count a request whose client disconnected before it got the reply."""
        self._bucket(now).aborted += 1
        self.since_start.aborted += 1

    def last_minute(self, now: float) -> Counts:
        """Return the sum of the last 60 s, including the current second; drop older counts."""
        self._drop(now)
        total = Counts()
        for bucket in self._buckets.values():
            total.add(bucket)
        return total

    def _bucket(self, now: float) -> Counts:
        second = math.floor(now)
        bucket = self._buckets.get(second)
        if bucket is None:
            self._drop(now)
            bucket = self._buckets[second] = Counts()
        return bucket

    def _drop(self, now: float) -> None:
        # also delete counts of future seconds, which remain after the clock was set back
        window = range(math.floor(now) - WINDOW_S + 1, math.floor(now) + 1)
        for second in [second for second in self._buckets if second not in window]:
            del self._buckets[second]


@define
class LoopDelays:
    """The intervals between ticks of a 20 ms timer during the last minute."""

    _ms: deque[float] = field(factory=lambda: deque(maxlen=MAX_SAMPLES), init=False)

    def note(self, seconds: float) -> None:
        """Record an interval; a negative interval (the clock was set back) is recorded as 0."""
        self._ms.append(max(0.0, seconds) * 1000)

    def report(self) -> LoopFigures | None:
        """Return the figures, or None before the first sample."""
        if not self._ms:
            return None
        ordered = sorted(self._ms)
        p50, p95 = (ordered[rank(len(ordered), share) - 1] for share in (0.50, 0.95))
        return LoopFigures(round(p50, 1), round(p95, 1), round(ordered[-1], 1))


@define
class Health:
    """All health figures of one process."""

    requests: Requests = field(factory=Requests, init=False)
    loop: LoopDelays = field(factory=LoopDelays, init=False)


def upper_bound(latencies: Sequence[int], share: float) -> int | str | None:
    """Return the quantile ``share`` (0 to 1) of the latencies, rounded up to one of BOUNDS_MS.

    The result is None if there are no requests, and BEYOND if no bound is high enough.
    """
    count = sum(latencies)
    if count == 0:
        return None
    wanted, total = rank(count, share), 0
    for bound, here in zip(BOUNDS_MS, latencies, strict=False):
        total += here
        if total >= wanted:
            return bound
    return BEYOND


def rank(count: int, share: float) -> int:
    """Return the position (from 1) of the quantile ``share`` in ``count`` sorted values."""
    return max(1, math.ceil(round(count * share, 9)))
