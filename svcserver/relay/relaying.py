"""The relay as a Twisted service, for ``svc-relay`` and for programs that embed a relay.

relay = RelayService(reactor, Target("203.0.113.10", 443, fingerprint), bind="127.1.2.3")
relay.startService()
print(relay.port)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from svcserver.edge.certificate import Pair
from svcserver.edge.connections import ChannelFactory
from svcserver.edge.tls import Mismatch, pinned
from svcserver.edge.upstream import Pool
from svcserver.kernel.counters import Counters
from svcserver.relay.proxy_policy import Relay, logged

log = Logger()

HOST = "127.0.0.1"
DEFAULT_PORT = 61000
CONNECT_TIMEOUT_S = 10.0


class PortBusy(Exception):
    """The error when another program uses the relay's address; ``code`` is the error code."""

    code = "port_busy"

    def __init__(self, host: str, port: int, why: object) -> None:
        super().__init__(f"{host}:{port}: {why}")
        self.host, self.port = host, port


@frozen
class Target:
    """The gateway and its certificate's SHA-256; before a renewal, also the next SHA-256."""

    host: str
    port: int
    fingerprint: str
    next_fingerprint: str = ""

    @property
    def pins(self) -> tuple[str, ...]:
        both = (self.fingerprint, self.next_fingerprint)
        return tuple(fingerprint for fingerprint in both if fingerprint)


def make_pool(
    reactor: Any,
    target: Target,
    *,
    bind: str | None = None,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    pair: Pair | None = None,
) -> Pool:
    """Return a pool of pinned connections to ``target`` from the local address ``bind``.

    ``pair`` is the client certificate that the target can request.
    """
    connect = pinned(
        reactor,
        target.host,
        target.port,
        target.pins,
        timeout_s=connect_timeout_s,
        bind=bind,
        pair=pair,
    )
    reported: set[str] = set()

    def watched(pool: Pool) -> Deferred[Any]:
        opened: Deferred[Any] = connect(pool)
        return opened.addErrback(_report_once, reported)

    return Pool(reactor, watched, 502, "upstream_unreachable")


def _report_once(failure: Any, reported: set[str]) -> Any:
    error = failure.value
    if isinstance(error, Mismatch) and error.presented not in reported and len(reported) < 16:
        reported.add(error.presented)
        log.error(
            "the server's certificate differs from the certificate in the invite, so nothing was "
            "sent to the server. Ask the owner for a new invite. "
            "The server's fingerprint is {presented}",
            presented=error.presented,
        )
    return failure


@define(eq=False, slots=False)
class RelayService(Service):
    """The relay that listens on ``host:port`` and connects to ``target``; port 0 means any port."""

    reactor: Any
    target: Target
    port: int = 0
    host: str = HOST
    bind: str | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    say: Callable[[str], None] = logged  # writes a request's log line
    counters: Counters = field(factory=Counters)
    pair: Pair | None = None  # the client certificate for the target
    added: bytes = b""  # header lines that each request gets
    pool: Pool = field(init=False)
    policy: Relay = field(init=False)
    factory: ChannelFactory = field(init=False)
    _listening: Any = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.pool = make_pool(
            self.reactor,
            self.target,
            bind=self.bind,
            connect_timeout_s=self.connect_timeout_s,
            pair=self.pair,
        )
        self.policy = Relay(
            self.pool,
            say=self.say,
            counters=self.counters,
            own=self.host.encode(),
            added=self.added,
        )
        self.factory = ChannelFactory(self.reactor, self.policy, secure=False)
        self.factory.sweeps.append(self.pool.sweep)

    def startService(self) -> None:
        """Listen on loopback; raises PortBusy if another program uses the port."""
        Service.startService(self)
        try:
            self._listening = self.reactor.listenTCP(
                self.port, self.factory, backlog=128, interface=self.host
            )
        except CannotListenError as error:
            raise PortBusy(self.host, self.port, error.socketError) from None
        self.port = self._listening.getHost().port or self.port
        log.info("relay ready on {address}", address=f"{self.host}:{self.port}")

    def stopService(self) -> Any:
        Service.stopService(self)
        waits: list[Deferred[Any]] = []
        if self._listening is not None:
            closed = self._listening.stopListening()
            if isinstance(closed, Deferred):
                waits.append(closed)
        self.factory.cut()
        waits.append(self.factory.stop(0))
        self.pool.close()
        return DeferredList(waits, consumeErrors=True)
