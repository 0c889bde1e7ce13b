"""The choice of a connection to close for a new one when the chat is full. Spec: 2 §4 Chat.

One network that fills the chat must not keep others out: the connections of the network that
has the most are closed first, and those not logged in before those that are. Nobody who connects
costs a look at all the others.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from attrs import define, field


class HasNetwork(Protocol):
    """A connection with a network."""

    @property
    def network(self) -> str:
        """The network its address belongs to (``kernel.networks``)."""


C = TypeVar("C", bound=HasNetwork)


@define
class ByNetwork(Generic[C]):
    """Connections by network, the oldest of each first."""

    _of: dict[str, dict[C, None]] = field(factory=dict, init=False)
    # how many -> the networks that have so many, those that have had so many longest first
    _with: dict[int, dict[str, None]] = field(factory=dict, init=False)

    def add(self, connection: C) -> None:
        """Count a new connection; a known one is ignored."""
        mine = self._of.setdefault(connection.network, {})
        if connection not in mine:
            self._move(connection.network, len(mine), len(mine) + 1)
            mine[connection] = None

    def remove(self, connection: C) -> None:
        """Forget a connection; an unknown one is ignored."""
        mine = self._of.get(connection.network, {})
        if connection in mine:
            self._move(connection.network, len(mine), len(mine) - 1)
            del mine[connection]
            if not mine:
                del self._of[connection.network]

    def count(self, network: str) -> int:
        return len(self._of.get(network, ()))

    def oldest_of_largest(self, but: str | None = None) -> C | None:
        """The oldest of the network that has the most, ``but`` this one; None where there is none.

        There are few different counts, at most the root of twice the connections.
        """
        for size in sorted(self._with, reverse=True):
            for network in self._with[size]:
                if network != but:
                    return next(iter(self._of[network]))
        return None

    def __bool__(self) -> bool:
        return bool(self._of)

    def _move(self, network: str, before: int, after: int) -> None:
        if before:
            del self._with[before][network]
            if not self._with[before]:
                del self._with[before]
        if after:
            self._with.setdefault(after, {})[network] = None


@define
class Crowd(Generic[C]):
    """All connections: those that are logging in and those of players."""

    waiting: ByNetwork[C] = field(factory=ByNetwork)
    players: ByNetwork[C] = field(factory=ByNetwork)

    def bound(self, connection: C) -> None:
        """Count a connection that has logged in among the players."""
        self.waiting.remove(connection)
        self.players.add(connection)

    def left(self, connection: C) -> None:
        self.waiting.remove(connection)
        self.players.remove(connection)

    def choose_to_close(self, newcomer: str) -> C | None:
        """The one to close for a new one of this network. None: the new one is refused.

        A player's session is closed only when no connection is still logging in, and only when its
        network then still has as many as the newcomer's.
        """
        if self.waiting:
            return self.waiting.oldest_of_largest(but=newcomer)
        largest = self.players.oldest_of_largest()
        if largest is None:
            return None
        more = self.players.count(largest.network) > self.players.count(newcomer) + 1
        return largest if more else None
