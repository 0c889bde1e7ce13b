"""Counters of refusals and similar events, one for each reason, for METRICS_PORT.

counters = Counters()
counters.add(Counted.REFUSALS, "forbidden_host")
"""

from collections.abc import Callable, Mapping
from enum import StrEnum

from attrs import define, field, frozen

MOST_REASONS = 64  # reasons per kind; a reason never comes from a client
OVERFLOW = "other"  # counts all reasons beyond MOST_REASONS


class Counted(StrEnum):
    """The kinds of counters; each value is the last part of a metric's name."""

    REFUSALS = "refusals"
    THROTTLED = "throttled"
    FAILED_LOGINS = "failed_logins"
    EVICTED_CONNECTIONS = "evicted_connections"
    DROPPED_LOG_LINES = "dropped_log_lines"
    RERUN_TRANSACTIONS = "rerun_transactions"
    REPEATED = "repeated_requests"


MEANINGS: Mapping[Counted, str] = {
    Counted.REFUSALS: "Requests and connections refused, by reason or status.",
    Counted.THROTTLED: "Requests answered 429, by the limit that was reached.",
    Counted.FAILED_LOGINS: "Log-ins refused, by reason.",
    Counted.EVICTED_CONNECTIONS: "Connections closed to make room for others, by reason.",
    Counted.DROPPED_LOG_LINES: "Log lines dropped: nobody read them, or there were too many.",
    Counted.RERUN_TRANSACTIONS: "Transactions that ran again after a conflict, on PostgreSQL.",
    Counted.REPEATED: "Requests sent again because the upstream ended, by upstream and outcome.",
}


@frozen
class Figure:
    """A metric with its help text; ``read`` returns its value.

    The metric is a counter if ``counts`` is true, otherwise a gauge.
    """

    meaning: str
    read: Callable[[], float]
    counts: bool = False


@define
class Counters:
    """The counters of one process, which only increase; not thread-safe.

    ``time_request`` records the route, status and seconds of a request; it is None unless
    METRICS_PORT is set.
    """

    time_request: Callable[[str, int, float], None] | None = field(default=None, init=False)
    _counts: dict[Counted, dict[str, int]] = field(init=False)
    _watched: dict[tuple[Counted, str], Callable[[], int]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._counts = {kind: {} for kind in Counted}

    def add(self, kind: Counted, reason: str = "", times: int = 1) -> None:
        counts = self._counts[kind]
        if reason not in counts and len(counts) >= MOST_REASONS:
            reason = OVERFLOW
        counts[reason] = counts.get(reason, 0) + times

    def watch(self, kind: Counted, reason: str, read: Callable[[], int]) -> None:
        """Show a counter that another object maintains; ``read`` returns its value."""
        self._watched[kind, reason] = read

    def by_reason(self, kind: Counted) -> Mapping[str, int]:
        read = {
            reason: read() for (watched, reason), read in self._watched.items() if watched is kind
        }
        return self._counts[kind] | read

    def total(self, kind: Counted) -> int:
        return sum(self.by_reason(kind).values())
