"""Which connection gives way to a newcomer when there is no room. Spec: 2 §4 Chat.

Whoever fills the chat from one network must not keep the others out: what that network
holds goes first, and what is not logged in before what is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Connection(Protocol):
    """A connection as far as it matters here."""

    @property
    def network(self) -> str:
        """What its address is counted as."""

    @property
    def bound(self) -> bool:
        """Whether it is a player's session."""


C = TypeVar("C", bound=Connection)


def who_gives_way(connections: Sequence[C], newcomer: str) -> C | None:
    """One of the ``connections`` (oldest first), or None: the newcomer's network has its share.

    A player's session goes only when nobody is still logging in, and only when its network
    would still hold as many as the newcomer's.
    """
    waiting = [one for one in connections if not one.bound]
    if waiting:
        others = [one for one in waiting if one.network != newcomer]
        return _of_the_largest(others) if others else None
    held = Counter(one.network for one in connections)
    largest = _of_the_largest(connections)
    return largest if held[largest.network] > held[newcomer] + 1 else None


def _of_the_largest(connections: Sequence[C]) -> C:
    """The oldest of the network that has the most."""
    held = Counter(one.network for one in connections)
    return max(connections, key=lambda one: held[one.network])
