"""The HTTP client of the players' library, on the simulated network."""

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
    """A keep-alive connection with one request at a time."""

    def __init__(self) -> None:
        self.alive = False
        self.waiting: Deferred[Reply] | None = None
        self.idle_since = 0.0
        self._reader = ReplyReader()

    def connectionMade(self) -> None:
        self.alive = True

    def dataReceived(self, data: bytes) -> None:
        reply = self._reader.feed(data)
        if reply is None or self.waiting is None:
            return
        waiting, self.waiting = self.waiting, None
        if reply.closes or not self._reader.is_empty:
            self.close()
        waiting.callback(reply)

    def connectionLost(self, reason: Failure = Failure(NoAnswer())) -> None:  # noqa: B008
        self.alive = False
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.errback(NoAnswer("the connection ended"))

    def close(self) -> None:
        """Close the connection; a pending request gets no reply."""
        self.alive = False
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.errback(NoAnswer("given up"))
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
    """An HTTP client of ``127.0.0.1:port``, or of ``host`` if the service is on another machine."""

    process: Process
    port: int = RELAY
    host: str = "127.0.0.1"
    headers: dict[str, str] = field(factory=dict)
    sent_count: int = 0
    _idle: list[_Wire] = field(factory=list, init=False)
    _all: list[_Wire] = field(factory=list, init=False)
    _making: list[Deferred[_Wire]] = field(factory=list, init=False)

    async def request_once(
        self,
        method: str,
        path: str,
        sent: Any = None,
        *,
        headers: dict[str, str] | None = None,
        lose: bool = False,
    ) -> Reply:
        """Send a request; ``lose`` closes the connection before the reply. Raises NoAnswer."""
        self.sent_count += 1
        fields = {"Host": f"127.0.0.1:{self.port}", **self.headers, **(headers or {})}
        wire = await self._wire()
        if not wire.alive or wire.transport is None:
            raise NoAnswer("the connection ended immediately")
        waiting: Deferred[Reply] = Deferred()
        wire.waiting = waiting
        wire.transport.write(request(method, path, sent, fields))
        timer = self.process.callLater(0.05 if lose else ANSWER_S, wire.close)
        try:
            received = await waiting
        finally:
            if timer.active():
                timer.cancel()
        if wire.alive and len(self._idle) < MAX_IDLE:
            wire.idle_since = self.process.seconds()
            self._idle.append(wire)
        elif wire.alive:
            wire.close()
        return received

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
        if not wire.alive:  # the connection is made later in this turn
            begun: Deferred[None] = Deferred()
            self.process.world.later(0, lambda: begun.callback(None))
            await begun
        return wire

    def forget(self) -> None:
        """Forget closed connections."""
        self._all = [wire for wire in self._all if wire.alive]
        for wire in self._idle:  # idle connections keep their places in the list
            if not wire.alive:
                wire.transport = None

    def close(self) -> None:
        """Close all connections of this client."""
        for wire in [*self._all, *self._idle]:
            if wire.alive:
                wire.close()
        for made in list(self._making):
            if not made.called:
                made.errback(NoAnswer("given up"))
        self._all.clear()
        self._idle.clear()
