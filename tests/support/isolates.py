"""Marks that name the transactions of docs/contributors/transactions.md that a test proves.

    @isolates("social/friends: block", "social/friends: request")
    def test_...

The test runs those transactions concurrently with changes that could interfere. The marks are read
from the source: ``tests/contract/test_isolation.py`` finds transactions on the page that no test
proves, and marks that name no transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def isolates(*acts: str) -> Callable[[T], T]:
    """Mark a test with the transactions it proves; at least one name is required."""
    assert acts
    return lambda test: test
