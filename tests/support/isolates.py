"""Marks beside a test: which act of docs/contributors/transactions.md it proves.

    @isolates("social/friends: block", "social/friends: request")
    def test_...

Such a test runs the acts at the same time as what could break them. The marks are read from the
source: ``tests/contract/test_isolation.py`` finds an act of the page that no test proves, and a
mark that names no act.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def isolates(*acts: str) -> Callable[[T], T]:
    """At least one act."""
    assert acts
    return lambda test: test
