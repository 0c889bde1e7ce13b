"""The choice of a connection to close for a new one when the chat is full. Spec: 2 §4 Chat.

One network that fills the chat must not keep others out. Connections of the largest network are
closed first, those not logged in before those that are. A connection never costs a scan of all.
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
    # size -> the networks of that size, those that reached it first before others
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
        """Return the oldest connection of the largest network, except ``but``, or None."""
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
        """Return the connection to close for a new one of this network, or None to refuse it.

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
