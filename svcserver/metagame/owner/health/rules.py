"""Counts and percentiles of the last minute. Spec: 2 §4 BackendHealth.

``now`` is in epoch seconds. Memory does not grow with the number of requests.
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
    """The measured intervals of a 20 ms timer in ms, which show how busy the event loop is."""

    p50: float
    p95: float
    longest: float


@define
class Counts:
    """Counts over a span of time; ``latencies`` has a count per bound, and one beyond."""

    completed: int = 0
    client_errors: int = 0
    server_errors: int = 0
    aborted: int = 0
    latencies: list[int] = field(factory=lambda: [0] * (len(BOUNDS_MS) + 1))

    def note(self, status: int, seconds: float) -> None:
        """Count a request that was answered in ``seconds``."""
        self.completed += 1
        self.client_errors += 400 <= status < 500
        self.server_errors += status >= 500
        self.latencies[bisect_left(BOUNDS_MS, seconds * 1000)] += 1

    def add(self, other: Counts) -> None:
        """Take ``other`` in, as the seconds of a minute are summed."""
        self.completed += other.completed
        self.client_errors += other.client_errors
        self.server_errors += other.server_errors
        self.aborted += other.aborted
        self.latencies = [a + b for a, b in zip(self.latencies, other.latencies, strict=True)]

    def since(self, before: Counts) -> Counts:
        """The difference to ``before``, an earlier reading of these counts, which only grow."""
        return Counts(
            self.completed - before.completed,
            self.client_errors - before.client_errors,
            self.server_errors - before.server_errors,
            self.aborted - before.aborted,
            [a - b for a, b in zip(self.latencies, before.latencies, strict=True)],
        )


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

    def last_minute(self, now: float) -> Counts:
        """The sum over the last 60 s, the current second included; drops what is older."""
        self._drop(now)
        seen = Counts()
        for bucket in self._buckets.values():
            seen.add(bucket)
        return seen

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
        p50, p95 = (ordered[rank(len(ordered), share) - 1] for share in (0.50, 0.95))
        return LoopFigures(round(p50, 1), round(p95, 1), round(ordered[-1], 1))


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
