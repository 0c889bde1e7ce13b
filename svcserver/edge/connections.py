"""The client connections of an edge service; above a limit, idle connections are closed."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from svcserver.edge.channel import EdgeChannel, Idle
from svcserver.edge.verdicts import ProxyPolicy
from svcserver.http.connection import Connections
from svcserver.http.peers import peer_of

EVICTED_AT_ONCE = 16  # minimum number of candidates that one search finds


class ChannelFactory(Connections[EdgeChannel]):
    """The factory of client connections; ``secure`` is true if they use TLS."""

    def __init__(self, clock: IReactorTime, policy: ProxyPolicy, *, secure: bool) -> None:
        super().__init__(clock)
        self.policy, self.secure = policy, secure
        self.on_lost: Callable[[str, Failure], None] | None = (
            None  # called for each connection that ends, with the cause
        )
        self._empty: Deferred[None] | None = None
        self._next_out: list[
            tuple[EdgeChannel, Idle]
        ] = []  # candidates for eviction, the next one last

    def buildProtocol(self, addr: Any) -> EdgeChannel | None:
        return EdgeChannel(self, peer_of(addr))

    def remove(self, channel: EdgeChannel, reason: Failure) -> None:
        """Forget a closed connection."""
        if channel in self.channels and self.on_lost is not None:
            self.on_lost(channel.peer, reason)
        super().remove(channel, reason)

    def evict(self, beside: Callable[[str], int]) -> str:
        """Abort an idle connection; return its metrics label, or "" if no connection is idle.

        ``beside(peer)`` returns how many connections the peer's network has. Idle connections are
        sorted by these values, and the first connection is aborted:

        - state: connections without a request first, then connections with a slow client
        - number of connections of the client's network: the highest number first
        - idle time: the longest time first
        """
        candidate = self._next_idle() or (self._find_idle(beside) and self._next_idle())
        if not candidate:
            return ""
        channel, idle = candidate
        self.remove(channel, Failure(ConnectionAborted()))
        channel.cut()
        return idle.waits_for

    def _next_idle(self) -> tuple[EdgeChannel, Idle] | None:
        """Return the next candidate for eviction that has not become active in the meantime."""
        while self._next_out:
            channel, idle = self._next_out.pop()
            if channel in self.channels and channel.idle() == idle:
                return channel, idle
        return None

    def _find_idle(self, beside: Callable[[str], int]) -> bool:
        """Search all connections for idle ones; return False if no connection is idle.

        A search is expensive, so several candidates are stored for later evictions.
        """
        waits = [(channel, idle) for channel in self.channels if (idle := channel.idle())]
        waits.sort(key=lambda wait: (wait[1].in_request, -beside(wait[0].peer), wait[1].since))
        self._next_out = waits[: max(EVICTED_AT_ONCE, len(waits) // 32)][::-1]
        return bool(waits)

    def stop(self, grace_s: float) -> Deferred[None]:
        """Close all connections, each after its request in progress.

        The Deferred fires when all connections are closed. Connections that are still open after
        ``grace_s`` seconds are aborted.
        """
        self.stopping = True
        for channel in list(self.channels):
            channel.stop()
        if not self.channels:
            self.on_empty()
            return succeed(None)
        self._empty = Deferred()
        timer = self.clock.callLater(grace_s, self.cut)
        self._empty.addBoth(lambda result: timer.cancel() if timer.active() else result)
        return self._empty

    def cut(self) -> None:
        """Abort every client connection, because the service stops."""
        for channel in list(self.channels):
            channel.cut()

    def on_empty(self) -> None:
        super().on_empty()
        empty, self._empty = self._empty, None
        if empty is not None:
            empty.callback(None)
