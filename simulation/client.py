"""The HTTP of the players' library over the simulated network."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.python.failure import Failure

from simulation.process import Process
from svcserver.players.http import NoAnswer, Reply, ReplyReader, request

ANSWER_S = 45.0
RELAY = 61000
MAX_IDLE = 4
IDLE_S = 20.0


class _Wire(Protocol):
    """One kept-alive connection, one request at a time."""

    def __init__(self) -> None:
        self.alive = False
        self.asked: Deferred[Reply] | None = None
        self.idle_since = 0.0
        self._reader = ReplyReader()

    def connectionMade(self) -> None:
        self.alive = True

    def dataReceived(self, data: bytes) -> None:
        reply = self._reader.feed(data)
        if reply is None or self.asked is None:
            return
        asked, self.asked = self.asked, None
        if reply.closes or not self._reader.is_empty:
            self.close()
        asked.callback(reply)

    def connectionLost(self, reason: Failure = Failure(NoAnswer())) -> None:  # noqa: B008
        self.alive = False
        asked, self.asked = self.asked, None
        if asked is not None:
            asked.errback(NoAnswer("the connection ended"))

    def close(self) -> None:
        """Close it; who waits for an answer gets none."""
        self.alive = False
        asked, self.asked = self.asked, None
        if asked is not None:
            asked.errback(NoAnswer("given up"))
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()


class _Factory(ClientFactory):
    noisy = False

    def __init__(self, made: Deferred[_Wire]) -> None:
        self._made = made

    def buildProtocol(self, addr: Any) -> _Wire:
        wire = _Wire()
        made, self._made = self._made, Deferred()
        wire.idle_since = -1.0
        made.callback(wire)
        return wire

    def clientConnectionFailed(self, connector: Any, reason: Failure) -> None:
        self._made.errback(NoAnswer("no connection"))


@define(eq=False)
class Client:
    """Asks ``127.0.0.1:port`` of its machine; ``host`` where the service is elsewhere."""

    process: Process
    port: int = RELAY
    host: str = "127.0.0.1"
    headers: dict[str, str] = field(factory=dict)
    asked: int = 0
    _idle: list[_Wire] = field(factory=list, init=False)
    _all: list[_Wire] = field(factory=list, init=False)
    _making: list[Deferred[_Wire]] = field(factory=list, init=False)

    async def ask(
        self,
        method: str,
        path: str,
        sent: Any = None,
        *,
        headers: dict[str, str] | None = None,
        lose: bool = False,
    ) -> Reply:
        """One request. ``lose``: hang up before the answer. Raises NoAnswer."""
        self.asked += 1
        fields = {"Host": f"127.0.0.1:{self.port}", **self.headers, **(headers or {})}
        wire = await self._wire()
        if not wire.alive or wire.transport is None:
            raise NoAnswer("the connection ended at once")
        asked: Deferred[Reply] = Deferred()
        wire.asked = asked
        wire.transport.write(request(method, path, sent, fields))
        timer = self.process.callLater(0.05 if lose else ANSWER_S, wire.close)
        try:
            heard = await asked
        finally:
            if timer.active():
                timer.cancel()
        if wire.alive and len(self._idle) < MAX_IDLE:
            wire.idle_since = self.process.seconds()
            self._idle.append(wire)
        elif wire.alive:
            wire.close()
        return heard

    async def _wire(self) -> _Wire:
        now = self.process.seconds()
        while self._idle:
            wire = self._idle.pop()
            if wire.alive and now - wire.idle_since < IDLE_S:
                return wire
            wire.close()
        made: Deferred[_Wire] = Deferred()
        self._making.append(made)
        self.process.connectTCP(self.host, self.port, _Factory(made), timeout=10)
        try:
            wire = await made
        finally:
            self._making.remove(made)
        self.forget()
        self._all.append(wire)
        if not wire.alive:  # it is made, and told so in this turn
            begun: Deferred[None] = Deferred()
            self.process.world.later(0, lambda: begun.callback(None))
            await begun
        return wire

    def forget(self) -> None:
        """Let go of connections that have ended."""
        self._all = [one for one in self._all if one.alive]
        for one in self._idle:  # they keep their places
            if not one.alive:
                one.transport = None

    def close(self) -> None:
        """Close every connection of this PC to the host."""
        for one in [*self._all, *self._idle]:
            if one.alive:
                one.close()
        for made in list(self._making):
            if not made.called:
                made.errback(NoAnswer("given up"))
        self._all.clear()
        self._idle.clear()
