"""The response times of each kind of request, measured by the simulated clients."""

import math
import re

from attrs import define, field, frozen

MAX_KINDS = 200
MAX_KEPT = 500_000  # durations of each kind
_ID = re.compile(r"UID-.*|[0-9a-fA-F-]{16,}|[0-9]+|persistent")
_FREE = {"/content/v1/files/": "FILE", "/token/platinum/": "OFFER"}


@frozen
class DurationRow:
    """The response times of one kind of request, in milliseconds."""

    operation: str
    count: int
    median_ms: float
    p99_ms: float
    worst_ms: float


@define
class Timings:
    """The durations of requests by kind; the number of stored values is bounded."""

    _took: dict[str, list[float]] = field(factory=dict)

    def note(self, operation: str, seconds: float) -> None:
        times = self._took.get(operation)
        if times is None:
            if len(self._took) >= MAX_KINDS:
                return
            times = self._took[operation] = []
        if len(times) < MAX_KEPT:
            times.append(seconds)

    @property
    def count(self) -> int:
        return sum(map(len, self._took.values()))

    def figures(self) -> list[DurationRow]:
        return [_figure(name, sorted(took)) for name, took in sorted(self._took.items())]


def _figure(operation: str, took: list[float]) -> DurationRow:
    return DurationRow(operation, len(took), _at(took, 0.5), _at(took, 0.99), _at(took, 1.0))


def _at(took: list[float], part: float) -> float:
    """Return the quantile ``part`` (0 to 1) of the durations, in milliseconds."""
    return round(took[math.ceil(part * len(took)) - 1] * 1000, 1)


def operation_of(method: str, path: str) -> str:
    """Return the kind of a request: its method and its path with ``*`` for ids."""
    path = path.partition("?")[0]
    for start, word in _FREE.items():
        if path.startswith(start):
            return f"{method} {start}{word}"
    parts = ["*" if _ID.fullmatch(part) else part for part in path.split("/")]
    return f"{method} {'/'.join(parts)}"
