"""The choice of the connection to close when a new connection arrives and the chat is full.

One network that fills the chat must not keep other players out. So connections from the network
with the most connections are closed first. Connections that have not logged in are closed before
connections of players. The choice never scans all connections. Spec: 2 §4 Chat.
"""

from typing import Generic, Protocol, TypeVar

from attrs import define, field


class HasNetwork(Protocol):
    """A connection whose network is known."""

    @property
    def network(self) -> str:
        """The network of the connection's address (``kernel.networks``)."""


C = TypeVar("C", bound=HasNetwork)


@define
class ByNetwork(Generic[C]):
    """Connections grouped by network; within each network, the oldest is first."""

    _of: dict[str, dict[C, None]] = field(factory=dict, init=False)
    # size -> the networks of that size, in the order in which they reached it
    _with: dict[int, dict[str, None]] = field(factory=dict, init=False)

    def add(self, connection: C) -> None:
        """Add a connection; does nothing if it was added before."""
        mine = self._of.setdefault(connection.network, {})
        if connection not in mine:
            self._move(connection.network, len(mine), len(mine) + 1)
            mine[connection] = None

    def remove(self, connection: C) -> None:
        """Remove a connection; does nothing if it is unknown."""
        mine = self._of.get(connection.network, {})
        if connection in mine:
            self._move(connection.network, len(mine), len(mine) - 1)
            del mine[connection]
            if not mine:
                del self._of[connection.network]

    def count(self, network: str) -> int:
        return len(self._of.get(network, ()))

    def oldest_of_largest(self, but: str | None = None) -> C | None:
        """Return the oldest connection of the network with the most connections, or None.

        The network ``but`` is left out.
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
    """All connections, in two groups: those that are still logging in, and those of players."""

    waiting: ByNetwork[C] = field(factory=ByNetwork)
    players: ByNetwork[C] = field(factory=ByNetwork)

    def bound(self, connection: C) -> None:
        """Move a connection to ``players``, because its player has logged in."""
        self.waiting.remove(connection)
        self.players.add(connection)

    def left(self, connection: C) -> None:
        self.waiting.remove(connection)
        self.players.remove(connection)

    def choose_to_close(self, newcomer: str) -> C | None:
        """Return the connection to close for a new one, or None to refuse the new one.

        ``newcomer`` is the network of the new connection. If any connections are still logging in,
        one of them is chosen, but never one from ``newcomer``. Otherwise, find the network with the
        most players. If that network has at least two players more than ``newcomer``, the network's
        oldest connection is chosen.
        """
        if self.waiting:
            return self.waiting.oldest_of_largest(but=newcomer)
        largest = self.players.oldest_of_largest()
        if largest is None:
            return None
        more = self.players.count(largest.network) > self.players.count(newcomer) + 1
        return largest if more else None
