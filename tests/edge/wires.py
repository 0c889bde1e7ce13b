"""Gateway and relay with both peers in memory, without sockets, on a fake clock."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import httptools
from attrs import define, field
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from svcserver.edge.channel import EdgeChannel
from svcserver.edge.connections import ChannelFactory
from svcserver.edge.parking import Parking
from svcserver.edge.upstream import Pool, UpstreamConnection
from svcserver.edge.verdicts import Limits
from svcserver.gateway.limits import ConnectionCounts, NetworkBuckets, Spending
from svcserver.gateway.policy import Bucket, Route
from svcserver.gateway.proxy_policy import Gateway
from svcserver.kernel.rates import Rate
from svcserver.kernel.secrets import Secret
from svcserver.relay.proxy_policy import Relay

SECRET = "s3cret-s3cret-s3cret-s3cret-s3cret"
PLENTY = Rate(1_000_000, 1_000_000)
H = b"Host: localhost\r\n"
GET = b"GET /g HTTP/1.1\r\n" + H + b"\r\n"


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1]) if reply else 0


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


class Wire(StringTransport):
    """A transport that tells its protocol when it is closed, and records how it was closed."""

    ended = ""
    half_closed = False
    paused = False
    stalled = False  # for tests that write to it as to a client that does not read

    def __init__(self, protocol: Any, peer: str = "127.0.0.1") -> None:
        super().__init__(peerAddress=IPv4Address("TCP", peer, 4444))
        self.protocol = protocol

    def _end(self, how: str, reason: Exception) -> None:
        if not self.ended:
            self.ended = how
            self.disconnecting = True
            self.protocol.connectionLost(Failure(reason))

    def loseConnection(self, *_: Any) -> None:
        self._end("closed", ConnectionDone())

    def abortConnection(self) -> None:
        self._end("cut", ConnectionAborted())

    def loseWriteConnection(self) -> None:
        self.half_closed = True

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Do nothing."""

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert self.producer is None, "one producer at a time"
        assert streaming
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    @property
    def over(self) -> bool:
        """Return whether the connection is closed."""
        return bool(self.ended) or self.half_closed

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        reply = self.value()
        self.clear()
        return reply


@define
class ParsedRequest:
    """A request as llhttp parsed it at the upstream."""

    method: bytes = b""
    target: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(factory=list)
    body: bytes = b""
    complete: bool = False

    def value(self, name: bytes) -> bytes:
        """Return the only value of a header field."""
        [value] = [value for key, value in self.headers if key.lower() == name]
        return value


class Reader:
    """A parser of the bytes that reach an upstream."""

    def __init__(self) -> None:
        self.requests: list[ParsedRequest] = []
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self.requests.append(ParsedRequest())

    def on_url(self, url: bytes) -> None:
        self.requests[-1].target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.requests[-1].headers.append((name, value))

    def on_body(self, data: bytes) -> None:
        self.requests[-1].body += data

    def on_headers_complete(self) -> None:
        self.requests[-1].method = self.parser.get_method()

    def on_message_complete(self) -> None:
        self.requests[-1].complete = True

    def feed(self, data: bytes) -> None:
        """Parse more bytes; record a fault if they are not HTTP."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.requests[-1].complete = True


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@define(eq=False)
class Upstream:
    """A recording upstream; ``serve`` answers with ``always`` or, if that is empty, with ``OK``."""

    clock: Clock
    always: bytes = b""
    down: bool = False
    silent: bool = False  # connections never open
    wires: list[Wire] = field(factory=list)
    readers: list[Reader] = field(factory=list)
    answered: int = 0
    pool: Pool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pool = Pool(self.clock, self._connect)

    def parks(self) -> Parking:
        """Make the gateway hold requests while this upstream is away.

        The gateway does so only if the upstream has answered at least once.
        """
        self.pool.parking = Parking(
            self.clock, "the metagame", lambda: self.pool.reach().addCallback(self.pool.give_back)
        )
        return self.pool.parking

    def reset(self) -> None:
        """Close every connection, including connections that are opened while others close."""
        for wire in self.wires:
            wire.abortConnection()

    def end(self) -> None:
        """Stop the upstream: close every connection and accept no new connection."""
        self.down = True
        self.reset()

    def _connect(self, pool: Pool) -> Deferred[Any]:
        if self.silent:
            return Deferred()
        if self.down:
            return fail(ConnectionRefusedError())
        connection = UpstreamConnection(pool)
        wire = Wire(connection)
        connection.makeConnection(wire)
        self.wires.append(wire)
        self.readers.append(Reader())
        return succeed(connection)

    def take_requests(self) -> list[ParsedRequest]:
        """Return every request so far, on all connections."""
        for wire, reader in zip(self.wires, self.readers, strict=True):
            reader.feed(wire.take())
        return [request for reader in self.readers for request in reader.requests]

    def say(self, data: bytes, wire: int = -1) -> None:
        """Send bytes from the upstream."""
        self.wires[wire].protocol.dataReceived(data)

    def serve(self) -> None:
        """Answer all complete requests until no more arrive."""
        while self.answered < sum(request.complete for request in self.take_requests()):
            self.answered += 1
            for wire, reader in zip(self.wires, self.readers, strict=True):
                if reader.requests and reader.requests[-1].complete and not wire.ended:
                    wire.protocol.dataReceived(self.always or OK)


@define(eq=False)
class Edge:
    """An edge service (gateway or relay) and its upstreams."""

    clock: Clock
    policy: Any
    upstreams: Mapping[Route, Upstream]
    factory: ChannelFactory = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.factory = ChannelFactory(self.clock, self.policy, secure=False)
        self.factory.startFactory()

    @property
    def upstream(self) -> Upstream:
        """Return the metagame behind the gateway, or the gateway behind the relay."""
        return self.upstreams[Route.METAGAME]

    def connect(self, peer: str = "127.0.0.1") -> Wire:
        """Return a client that is connected to the edge under test."""
        channel = EdgeChannel(self.factory, peer)
        wire = Wire(channel, peer)
        channel.makeConnection(wire)
        return wire

    def send(self, data: bytes, peer: str = "127.0.0.1") -> Wire:
        """Send bytes on a new connection."""
        wire = self.connect(peer)
        wire.protocol.dataReceived(data)
        return wire

    def ask(self, data: bytes, peer: str = "127.0.0.1") -> tuple[bytes, Wire]:
        """Send bytes on a new connection, let the upstream answer, and return the reply."""
        wire = self.send(data, peer)
        for upstream in self.upstreams.values():
            upstream.serve()
        return wire.take(), wire


def gateway(clock: Clock | None = None, **how: Any) -> Edge:
    """Return a gateway with the given ``rates`` and ``limits``."""
    clock = clock or Clock()
    upstreams = {route: Upstream(clock) for route in Route}
    rates = dict.fromkeys(Bucket, PLENTY) | how.pop("rates", {})
    policy = Gateway(
        clock,
        how.pop("limits", Limits(max_body=131_072)),
        Spending(rates),
        ConnectionCounts(2048, 128, NetworkBuckets(PLENTY)),
        {route: upstream.pool for route, upstream in upstreams.items()},
        Secret(SECRET),
        **how,
    )
    return Edge(clock, policy, upstreams)


def relay(clock: Clock | None = None, own: bytes = b"127.0.0.1") -> Edge:
    clock = clock or Clock()
    upstream = Upstream(clock)
    upstream.pool.code = "upstream_unreachable"
    return Edge(clock, Relay(upstream.pool, own=own), dict.fromkeys(Route, upstream))


def sent(edge: Edge, data: bytes) -> tuple[Edge, Wire]:
    """Send bytes on a new connection to ``edge``; return the edge and the connection."""
    return edge, edge.send(data)


def run(clock: Clock, seconds: float) -> None:
    """Advance the clock in steps of a second, since deadlines are checked once a second."""
    for _ in range(int(seconds)):
        clock.advance(1)


def pieces_of(raw: bytes, data: st.DataObject) -> list[bytes]:
    """Return ``raw`` split at random into pieces no larger than one socket read."""
    cuts = data.draw(st.sets(st.integers(1, len(raw)), max_size=12))
    edges = [0, *sorted({*cuts, *range(65_536, len(raw), 65_536)}), len(raw)]
    return [raw[begin:end] for begin, end in pairwise(edges) if begin < end]
