"""A rule to break: half of it is looked at."""

from __future__ import annotations

from collections.abc import Callable

LIMIT = 3


def fits(count: int) -> bool:
    """Looked at on both sides of the limit."""
    return count <= LIMIT


def price(count: int) -> int:
    """Only ever asked for none."""
    return count * 7


def doubling(most: int) -> Callable[[int], int]:
    """Looked at through one that was made at import."""

    def double(count: int) -> int:
        return min(most, count * 2)

    return double


DOUBLE = doubling(8)
