"""Times as the wire and the database want them."""

from __future__ import annotations

from datetime import UTC, datetime

FAR_FUTURE = "2085-09-09T01:01:01.703Z"


def iso(seconds: float) -> str:
    """``2026-09-21T10:00:00.000Z`` from epoch seconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def short_date(seconds: float) -> str:
    """``Sep 5, 2026``: the UTC day in the short English form of character dates."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{_MONTHS[moment.month - 1]} {moment.day}, {moment.year}"
