"""All client connections of an edge service: made, ended together, evicted when there are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from svcserver.edge.channel import Channel, Idle
from svcserver.edge.verdicts import ProxyPolicy
from svcserver.http.connection import Connections
from svcserver.http.peers import peer_of

EVICTED_AT_ONCE = 16  # at least so many are found by one look at all connections


class ChannelFactory(Connections[Channel]):
    """Serves ``policy`` on every connection; ``secure`` when TLS is underneath."""

    def __init__(self, clock: IReactorTime, policy: ProxyPolicy, *, secure: bool) -> None:
        super().__init__(clock)
        self.policy, self.secure = policy, secure
        self.left: Callable[[str, Failure], None] | None = None  # told of all who go, and why
        self._empty: Deferred[None] | None = None
        self._next_out: list[tuple[Channel, Idle]] = []  # who gives way next, the last first

    def buildProtocol(self, addr: Any) -> Channel | None:
        return Channel(self, peer_of(addr))

    def gone(self, channel: Channel, why: Failure) -> None:
        """Forget a closed connection; an evicted one has been forgotten before."""
        if channel in self.channels and self.left is not None:
            self.left(channel.peer, why)
        super().gone(channel, why)

    def evict(self, beside: Callable[[str], int]) -> str:
        """Abort the connection that has been idle longest; gives what it waited for, or "".

        Of idle ones those of the network that has most go first, ``beside`` counts them: who
        opens many loses many, and a player who has one keeps it.
        """
        found = self._next_idle() or (self._look_for_idle(beside) and self._next_idle())
        if not found:
            return ""
        channel, idle = found
        self.gone(channel, Failure(ConnectionAborted()))
        channel.cut()
        return idle.waits_for

    def _next_idle(self) -> tuple[Channel, Idle] | None:
        """The next candidate that has not become active since it was found."""
        while self._next_out:
            channel, idle = self._next_out.pop()
            if channel in self.channels and channel.idle() == idle:
                return channel, idle
        return None

    def _look_for_idle(self, beside: Callable[[str], int]) -> bool:
        """Search all connections for several candidates, so that few evictions cost a search."""
        found = [(channel, idle) for channel in self.channels if (idle := channel.idle())]
        found.sort(key=lambda one: (one[1].in_request, -beside(one[0].peer), one[1].since))
        some = found[: max(EVICTED_AT_ONCE, len(found) // 32)]
        self._next_out = some[::-1]
        return bool(some)

    def stop(self, grace_s: float) -> Deferred[None]:
        """Fires when every connection is closed; those left after ``grace_s`` are aborted."""
        self.stopping = True
        for channel in list(self.channels):
            channel.stop()
        if not self.channels:
            self.at_rest()
            return succeed(None)
        self._empty = Deferred()
        timer = self.clock.callLater(grace_s, self.cut)
        self._empty.addBoth(lambda result: timer.cancel() if timer.active() else result)
        return self._empty

    def cut(self) -> None:
        """Abort every connection of clients: the service stops."""
        for channel in list(self.channels):
            channel.cut()

    def at_rest(self) -> None:
        super().at_rest()
        empty, self._empty = self._empty, None
        if empty is not None:
            empty.callback(None)
