"""The connections to an upstream, which are kept alive between requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field
from twisted.internet import protocol
from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.parking import Parking
from svcserver.edge.verdicts import Unreachable
from svcserver.kernel.buggify import buggify

log = Logger()

CONNECT_S = 10.0
IDLE_S = 30.0  # shorter than the keep-alive of all our upstreams
MAX_IDLE = 256


class ConnectionUser(Protocol):
    """The object that uses a connection and receives its events, such as an ``Exchange``."""

    def upstream_received(self, data: bytes) -> None:
        """Handle received bytes of the answer."""

    def upstream_lost(self) -> None:
        """Handle the loss of the connection, if it was not yet given back to the pool."""


class UpstreamConnection(protocol.Protocol):
    """One upstream connection, which belongs to one user at a time."""

    user: ConnectionUser | None = None
    used: bool = False  # True if it has carried a request before
    idle_since: float = 0.0
    alive: bool = False

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def connectionMade(self) -> None:
        """Switch off Nagle's algorithm, which would delay small requests."""
        self.alive = True
        transport: Any = self.transport
        transport.setTcpNoDelay(True)

    def dataReceived(self, data: bytes) -> None:
        """Pass the bytes to the ConnectionUser; if there is none, close the connection."""
        self.pool.received = True
        if self.user is None:
            self.abort()
        else:
            self.user.upstream_received(data)

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self.alive = False
        user, self.user = self.user, None
        self.pool.forget(self)
        if user is not None:
            user.upstream_lost()

    def abort(self) -> None:
        """Abort the connection without calling ``upstream_lost``."""
        self.user = None
        transport: Any = self.transport
        if self.alive and transport is not None:
            transport.abortConnection()


@define(eq=False, slots=False)
class Pool:
    """The connections to one upstream.

    ``connect`` returns a Deferred that fires with an UpstreamConnection, which is ready for bytes.
    If the Deferred fails, the caller of ``take`` gets Unreachable.
    """

    clock: IReactorTime
    connect: Callable[[Pool], Deferred[Any]]
    status: int = 502
    code: str = "bad_gateway"
    idle_s: float = IDLE_S
    parking: Parking | None = field(default=None, init=False)
    received: bool = field(default=False, init=False)  # bytes have arrived since the last check
    _received_at: float = field(default=0.0, init=False)
    _connecting: int = field(default=0, init=False)
    _idle: list[UpstreamConnection] = field(factory=list, init=False)
    _open: dict[UpstreamConnection, None] = field(factory=dict, init=False)  # the oldest first
    closed: bool = field(default=False, init=False)

    def take(self, *, fresh: bool = False) -> UpstreamConnection | Deferred[UpstreamConnection]:
        """Return an idle connection, or a Deferred with a new one; can fail with Unreachable.

        With ``fresh``, idle connections are not used. While the upstream restarts, no connection is
        opened; the returned Deferred has already failed.
        """
        while self._idle and not fresh:
            connection = self._idle.pop()
            if buggify("upstream: a kept connection is dead"):
                connection.abort()
            if connection.alive:
                connection.used = True
                return connection
        if self.parking is not None and self.parking.away:
            return fail(Unreachable(self.status, self.code))
        return self.reach()

    def reach(self) -> Deferred[UpstreamConnection]:
        """Open a new connection, even if an idle connection exists."""
        self._connecting += 1
        return self.connect(self).addCallbacks(self._opened, self._failed)

    @property
    def in_flight(self) -> int:
        """The number of requests in progress, including those that wait for a connection."""
        return self._connecting + len(self._open) - len(self._idle)

    def silent_s(self, now: float) -> float:
        """Return the seconds since the upstream last sent data, or 0 if no request is in progress.

        The result is exact only if the method is called often.
        """
        if self.received or not self.in_flight:
            self.received, self._received_at = False, now
        return now - self._received_at

    def wait(
        self, error: Unreachable, size: int, since: float | None = None, peer: str = ""
    ) -> Deferred[None]:
        """Call ``parking.wait``; if there is no ``parking``, fail with ``error`` immediately."""
        return fail(error) if self.parking is None else self.parking.wait(error, size, since, peer)

    def drop_idle(self) -> None:
        """Close the idle connections, because the upstream is about to end."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    def give_back(self, connection: UpstreamConnection) -> None:
        """Take back a connection, so that the next request can use it."""
        connection.user = None
        if not connection.alive:
            return
        if self.closed or len(self._idle) >= MAX_IDLE:
            connection.abort()
            return
        connection.idle_since = self.clock.seconds()
        self._idle.append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        self._open.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)

    def sweep(self, now: float) -> bool:
        """Close connections that were idle for too long; return whether any idle ones are left."""
        for connection in [
            connection for connection in self._idle if now - connection.idle_since >= self.idle_s
        ]:
            self._idle.remove(connection)
            connection.abort()
        return bool(self._idle)

    def close(self) -> None:
        """Close every connection, and keep no connection from now on."""
        self.closed = True
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def _opened(self, connection: UpstreamConnection) -> UpstreamConnection:
        self._connecting -= 1
        self._open[connection] = None
        if self.parking is not None:
            self.parking.reached()
        return connection

    def _failed(self, failure: Failure) -> UpstreamConnection:
        self._connecting -= 1
        if isinstance(failure.value, Unreachable):
            failure.raiseException()
        log.debug("cannot connect to an upstream: {why}", why=failure.getErrorMessage())
        raise Unreachable(self.status, self.code) from failure.value


class _Plain(protocol.Factory):
    noisy = False

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def buildProtocol(self, addr: Any) -> UpstreamConnection:
        return UpstreamConnection(self.pool)


def plain(reactor: Any, host: str, port: int, timeout_s: float = CONNECT_S) -> Any:
    """Return a ``connect`` function for a Pool whose connections do not use TLS."""

    def connect(pool: Pool) -> Deferred[Any]:
        kind: Any = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
        opened: Deferred[Any] = kind(reactor, host, port, timeout=timeout_s).connect(_Plain(pool))
        return opened

    return connect
