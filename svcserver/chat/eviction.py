"""Which connection is closed for a new one when the chat is full. Spec: 2 §4 Chat.

One network that fills the chat must not keep others out: the connections of the network that
has the most are closed first, and those not logged in before those that are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Connection(Protocol):
    """What is asked of a connection here."""

    @property
    def network(self) -> str:
        """The network its address belongs to (``kernel.networks``)."""

    @property
    def bound(self) -> bool:
        """Whether it is a logged-in player's session."""


C = TypeVar("C", bound=Connection)


def choose_evicted(connections: Sequence[C], newcomer: str) -> C | None:
    """The one of ``connections`` (oldest first) to close for the network ``newcomer``.

    A player's session is closed only when no connection is still logging in, and only when its
    network then still has as many as the newcomer's. None: the new connection is refused.
    """
    waiting = [one for one in connections if not one.bound]
    if waiting:
        others = [one for one in waiting if one.network != newcomer]
        return _of_the_largest(others) if others else None
    held = Counter(one.network for one in connections)
    largest = _of_the_largest(connections)
    return largest if held[largest.network] > held[newcomer] + 1 else None


def _of_the_largest(connections: Sequence[C]) -> C:
    """The oldest connection of the network that has the most."""
    held = Counter(one.network for one in connections)
    return max(connections, key=lambda one: held[one.network])
