"""Marks beside a test: which row of the specification, or which route of our own, it proves.

    @proves("GET /candidate/status", "MATCHMAKING_CANCEL")
    def test_...

    @proves("GET /greeting/:name | player | own")    # a route of our own: access label and marks

The marks are read from the source: ``tests/contract/coverage.py`` finds a row of
``docs/contributors/specification.md`` that nothing proves, and a mark that names no row; and
``tests/contract/test_rows.py`` compares the labels of all routes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def proves(*rows: str) -> Callable[[T], T]:
    """At least one row."""
    assert rows
    return lambda test: test
