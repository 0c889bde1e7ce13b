"""Times as strings: ISO 8601 for clients and the database, and durations such as ``7d``."""

import re
from datetime import UTC, datetime
from functools import lru_cache

DAY_S = 86_400
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def iso(seconds: float) -> str:
    """Return epoch seconds in the client's format: ``2026-09-21T10:00:00.000Z``."""
    whole, ms = divmod(round(seconds * 1000), 1000)  # truncation would turn 0.003 into 0.002
    return f"{_to_the_second(whole)}.{ms:03d}Z"


@lru_cache(maxsize=64)  # most times are of the current second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_SPAN = re.compile(r"(\d{1,6})([smhdw])\Z")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": DAY_S, "w": 7 * DAY_S}
MAX_SPAN_S = 3_650 * DAY_S


def seconds_of(text: str) -> int | None:
    """Parse a duration such as ``7d`` (units s, m, h, d, w); None if invalid or above ten years."""
    match = _SPAN.match(text.strip().lower())
    seconds = int(match[1]) * _UNITS[match[2]] if match is not None else 0
    return seconds if 0 < seconds <= MAX_SPAN_S else None
