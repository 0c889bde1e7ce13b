"""Times as strings: ISO 8601 for clients and the database, and short dates."""

import re
from datetime import UTC, datetime
from functools import lru_cache

DAY_S = 86_400
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FAR_FUTURE = "2085-09-09T01:01:01.703Z"


def iso(seconds: float) -> str:
    """Return epoch seconds in the client's format: ``2026-09-21T10:00:00.000Z``."""
    whole, ms = divmod(round(seconds * 1000), 1000)  # truncation would turn 0.003 into 0.002
    return f"{_to_the_second(whole)}.{ms:03d}Z"


@lru_cache(maxsize=64)  # most times are of the current second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def short_date(seconds: float) -> str:
    """Return the UTC day in a short English format: ``Sep 5, 2026``."""
    return _short_day(int(seconds // DAY_S))


@lru_cache(maxsize=1024)
def _short_day(day: int) -> str:
    moment = datetime.fromtimestamp(day * DAY_S, UTC)
    return f"{_MONTHS[moment.month - 1]} {moment.day}, {moment.year}"


_SPAN = re.compile(r"(\d{1,6})([smhdw])\Z")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": DAY_S, "w": 7 * DAY_S}
MAX_SPAN_S = 3_650 * DAY_S


def seconds_of(text: str) -> int | None:
    """Parse a duration such as ``7d`` (units s, m, h, d, w); None if invalid or above ten years."""
    match = _SPAN.match(text.strip().lower())
    seconds = int(match[1]) * _UNITS[match[2]] if match is not None else 0
    return seconds if 0 < seconds <= MAX_SPAN_S else None
