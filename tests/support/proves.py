"""Marks that name the specification row, or the route of our own, that a test proves.

    @proves("GET /candidate/status", "MATCHMAKING_CANCEL")
    def test_...

    @proves("GET /greeting/:name | player | own")    # a route of our own: access label and marks

The marks are read from the source. ``tests/contract/coverage.py`` finds rows of
``docs/contributors/specification.md`` that no test proves, and marks that name no row.
``tests/contract/test_rows.py`` compares the labels of all routes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def proves(*rows: str) -> Callable[[T], T]:
    """Mark a test with the rows it proves; at least one name is required."""
    assert rows
    return lambda test: test
