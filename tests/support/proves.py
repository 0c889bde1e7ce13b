"""A decorator that names what a test proves: rows of the specification, or our own routes.

    @proves("GET /candidate/status", "MATCHMAKING_CANCEL")
    def test_...

    @proves("GET /greeting/:name | player | own")    # our own route: access label and marks

The decorator's names are read from the source. ``tests/contract/coverage.py`` finds rows of
``docs/contributors/specification.md`` that no test proves, and names of rows that do not exist.
``tests/contract/test_rows.py`` compares the labels of all routes.
"""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def proves(*rows: str) -> Callable[[T], T]:
    """Mark a test as proof of these rows; at least one row is required."""
    assert rows
    return lambda test: test
