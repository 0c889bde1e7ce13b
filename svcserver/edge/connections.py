"""All client connections of an edge service: made, looked over once a second, ended together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import protocol
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.channel import Channel, Idle
from svcserver.edge.verdicts import Keeper
from svcserver.http.peers import peer_of
from svcserver.kernel.every import Every

log = Logger()

SWEEP_S = 1.0
EVICTED_AT_ONCE = 16  # at least so many are found by one look at all connections


class ChannelFactory(protocol.Factory):
    """Serves ``keeper`` on every connection; ``secure`` when TLS is underneath."""

    noisy = False

    def __init__(self, clock: IReactorTime, keeper: Keeper, *, secure: bool) -> None:
        self.clock, self.keeper, self.secure = clock, keeper, secure
        self.channels: set[Channel] = set()
        self.stopping = False
        self.left: Callable[[str, Failure], None] | None = None  # told of all who go, and why
        self.sweeps: list[Callable[[float], None]] = []  # others who want the round, as pools
        self._rounds = Every(clock, SWEEP_S, self._sweep, "a round over the connections")
        self._empty: Deferred[None] | None = None
        self._next_out: list[tuple[Channel, Idle]] = []  # who gives way next, the last first

    def startFactory(self) -> None:
        """Begin the rounds."""
        self._rounds.startService()

    def stopFactory(self) -> None:
        """Nothing listens any more; rounds go on while connections are open."""
        self.stopping = True
        if not self.channels:
            self._rest()

    def buildProtocol(self, addr: Any) -> Channel | None:
        """A channel for a client."""
        return Channel(self, peer_of(addr))

    def opened(self, channel: Channel) -> None:
        """A connection is up."""
        self.channels.add(channel)

    def gone(self, channel: Channel, why: Failure) -> None:
        """A connection is down; one that was evicted has been let go of before."""
        if channel in self.channels:
            self.channels.discard(channel)
            if self.left is not None:
                self.left(channel.peer, why)
        if not self.channels and self.stopping:
            self._rest()

    def evict(self, beside: Callable[[str], int]) -> str:
        """Cut the connection that has been idle longest: what it waited for; empty without one.

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
        """The next that is still as idle as it was when it was found."""
        while self._next_out:
            channel, idle = self._next_out.pop()
            if channel in self.channels and channel.idle() == idle:
                return channel, idle
        return None

    def _look_for_idle(self, beside: Callable[[str], int]) -> bool:
        """Look at all connections; some are found at once, so that few newcomers cost a look."""
        found = [(channel, idle) for channel in self.channels if (idle := channel.idle())]
        found.sort(key=lambda one: (one[1].in_request, -beside(one[0].peer), one[1].since))
        some = found[: max(EVICTED_AT_ONCE, len(found) // 32)]
        self._next_out = some[::-1]
        return bool(some)

    def stop(self, grace_s: float) -> Deferred[None]:
        """Fires when every connection is gone; what is left after ``grace_s`` is cut."""
        self.stopping = True
        for channel in list(self.channels):
            channel.stop()
        if not self.channels:
            self._rest()
            return succeed(None)
        self._empty = Deferred()
        timer = self.clock.callLater(grace_s, self.cut)  # type: ignore[attr-defined,unused-ignore]
        self._empty.addBoth(lambda result: timer.cancel() if timer.active() else result)
        return self._empty

    def cut(self) -> None:
        """End every connection now."""
        for channel in list(self.channels):
            channel.cut()

    def _rest(self) -> None:
        self._rounds.stopService()
        empty, self._empty = self._empty, None
        if empty is not None:
            empty.callback(None)

    def _sweep(self) -> None:
        now = self.clock.seconds()
        for each in [*(channel.sweep for channel in self.channels), *self.sweeps]:
            try:
                each(now)
            except Exception:
                log.failure("a round over the connections failed")
