"""A rule to break: half of it is looked at."""

from __future__ import annotations

LIMIT = 3


def fits(count: int) -> bool:
    """Looked at on both sides of the limit."""
    return count <= LIMIT


def price(count: int) -> int:
    """Only ever asked for none."""
    return count * 7
