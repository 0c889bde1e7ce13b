"""A decorator that names the transactions whose isolation a test proves.

    @isolates("social/friends: block", "social/friends: request")
    def test_...

The test runs those transactions concurrently with changes that could interfere.
``tests/contract/test_isolation.py`` reads the decorator's names from the source. It finds
transactions in docs/contributors/transactions.md that no test proves, and names of transactions
that do not exist.
"""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[..., object])


def isolates(*acts: str) -> Callable[[T], T]:
    """Mark a test as proof that these transactions are isolated; at least one name is required."""
    assert acts
    return lambda test: test
