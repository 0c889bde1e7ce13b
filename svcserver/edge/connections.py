"""All client connections of an edge service: made, looked over once a second, ended together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import protocol
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.channel import Channel
from svcserver.edge.verdicts import Keeper
from svcserver.http.peers import peer_of

log = Logger()

SWEEP_S = 1.0


class ChannelFactory(protocol.Factory):
    """Serves ``keeper`` on every connection; ``secure`` when TLS is underneath."""

    noisy = False

    def __init__(self, clock: IReactorTime, keeper: Keeper, *, secure: bool) -> None:
        self.clock, self.keeper, self.secure = clock, keeper, secure
        self.channels: set[Channel] = set()
        self.stopping = False
        self.left: Callable[[str, Failure], None] | None = None  # told of all who go, and why
        self.sweeps: list[Callable[[float], None]] = []  # others who want the round, as pools
        self._round = LoopingCall(self._sweep)
        self._round.clock = clock
        self._empty: Deferred[None] | None = None

    def startFactory(self) -> None:
        """Begin the rounds."""
        self._round.start(SWEEP_S, now=False)

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
        """A connection is down."""
        self.channels.discard(channel)
        if self.left is not None:
            self.left(channel.peer, why)
        if not self.channels and self.stopping:
            self._rest()

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
        if self._round.running:
            self._round.stop()
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
