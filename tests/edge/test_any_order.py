"""Every request and every answer arrives in order, whatever the order of network events.

Both peers pause and resume at any time, connections open late, and bytes arrive in pieces of
any size.
"""

from collections.abc import Callable
from typing import Any

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.upstream import Pool
from svcserver.http import connection
from tests.edge.wires import Edge, Upstream, Wire, gateway, pieces_of

CLOSED = b"closed"  # in place of a refusal's body
LARGE = 70_000  # bytes: more than may be buffered, fewer than the body limit


@define
class Ask:
    """A request, with the bytes to send, the body to receive and the expected answer."""

    number: int
    kind: str
    size: int

    def sent(self) -> bytes:
        """Return the request's bytes."""
        path = b"/svc/x" if self.kind == "refused" else b"/%d" % self.number
        head = b"%b %b HTTP/1.1\r\nHost: localhost\r\n" % (self.method, path)
        if self.kind == "chunked":
            half = self.size // 2
            parts = [part for part in (self.body()[:half], self.body()[half:]) if part]
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
            return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        if self.kind == "get":
            return head + b"\r\n"
        return head + b"Content-Length: %d\r\n\r\n" % self.size + self.body()

    @property
    def method(self) -> bytes:
        return b"GET" if self.kind == "get" else b"POST"

    def body(self) -> bytes:
        """Return the body that the upstream must receive, if any."""
        return b"" if self.kind == "get" else b"%d" % (self.number % 10) * self.size

    def answer(self) -> bytes:
        """Return the body that the client must receive."""
        return CLOSED if self.kind == "refused" else b"to %d" % self.number


ASKS = st.lists(
    st.tuples(
        st.sampled_from(["get", "post", "chunked", "refused"]),
        st.sampled_from([0, 1, 300, LARGE // 2, LARGE]),
    ),
    min_size=3,
    max_size=24,
).map(
    lambda many: [Ask(number, kind, _fit(kind, size)) for number, (kind, size) in enumerate(many)]
)
SHAPES = st.sampled_from(["counted", "chunked", "until the end"])
STEPS = st.lists(
    st.sampled_from(
        [
            "client",
            "connect",
            "answer",
            "slow client",
            "quick client",
            "slow up",
            "quick up",
            "turn",
        ]
    ),
    min_size=20,
    max_size=80,
)


def _fit(kind: str, size: int) -> int:
    return min(size, 300) if kind == "refused" else size


@define
class World:
    """One client, one gateway, and an upstream whose connections open on demand."""

    asks: list[Ask]
    pieces: list[bytes]
    shapes: Callable[[], str]
    leaves: bool  # whether the client closes once it has sent everything
    edge: Edge = field(factory=gateway)
    coming: list[Any] = field(factory=list)
    answered: int = 0
    client: Wire = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.upstream.pool.connect = self._connect
        self.client = self.edge.connect()

    @property
    def upstream(self) -> Upstream:
        return self.edge.upstream

    def _connect(self, pool: Pool) -> Deferred[Any]:
        self.coming.append(Deferred())
        return self.coming[-1]  # type: ignore[no-any-return]

    def step(self, what: str) -> None:
        """Perform one random event."""
        match what:
            case "client" if self.pieces and not self.client.paused:
                self.client.protocol.dataReceived(self.pieces.pop(0))
            case "client" if self.leaves and not self.client.paused:
                self.leaves = False
                self.client.protocol.readConnectionLost()
            case "connect" if self.coming:
                opened = self.upstream._connect(self.upstream.pool)
                self.coming.pop(0).callback(opened.result)
            case "answer":
                self.answer()
            case "slow client" | "quick client":
                self.toggle(self.client, what == "slow client")
            case "slow up" | "quick up":
                for wire in self.upstream.wires:
                    self.toggle(wire, what == "slow up")
            case "turn":
                self.edge.clock.advance(0)

    def toggle(self, wire: Wire, slow: bool) -> None:
        """Report that a transport's buffer is full, or empty again."""
        if wire.producer is not None:
            (wire.producer.pauseProducing if slow else wire.producer.resumeProducing)()

    def answer(self) -> None:
        """Answer the oldest complete request if its connection is not paused."""
        self.upstream.take_requests()
        for wire, reader in zip(self.upstream.wires, self.upstream.readers, strict=True):
            last = reader.requests[-1] if reader.requests else None
            if last is None or not last.complete or wire.ended or wire.paused:
                continue
            if sum(
                request.complete for each in self.upstream.readers for request in each.requests
            ) > (self.answered):
                self.answered += 1
                self.say(wire, b"to " + last.target[1:])
            return

    def say(self, wire: Wire, body: bytes) -> None:
        """Send an answer in one of several forms."""
        shape, feed = self.shapes(), wire.protocol.dataReceived
        if shape == "counted":
            feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        elif shape == "chunked":
            feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            feed(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        else:
            feed(b"HTTP/1.0 200 OK\r\n\r\n" + body)
            wire.loseConnection()

    def finish(self) -> None:
        """Let client, gateway and upstream finish without delays."""
        for _ in range(200):
            for what in ("quick client", "quick up", "connect", "client", "answer", "turn"):
                self.step(what)


def bodies(reply: bytes) -> list[bytes]:
    """Return the bodies of consecutive answers."""
    result: list[bytes] = []
    while reply:
        head, _, rest = reply.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 403 "):
            result.append(CLOSED)
            reply = rest.partition(b"}")[2]
        elif b"Transfer-Encoding: chunked" in head:
            chunks, _, reply = rest.partition(b"0\r\n\r\n") if rest[:1] != b"0" else (b"", b"", b"")
            result.append(b"".join(chunks.split(b"\r\n")[1::2]))
        else:
            size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            result.append(rest[:size])
            reply = rest[size:]
    return result


class AnyOrderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(connection, "IN_A_ROW", 2)

    @settings(max_examples=60, deadline=None)
    @given(ASKS, STEPS, st.booleans(), st.data())
    def test_every_request_is_passed_on_whole_and_answered_in_its_turn(
        self, asks: list[Ask], steps: list[str], leaves: bool, data: st.DataObject
    ) -> None:
        raw = b"".join(ask.sent() for ask in asks)
        world = World(asks, pieces_of(raw, data), lambda: data.draw(SHAPES), leaves)
        for what in steps:
            world.step(what)
        world.finish()
        self.assertEqual(bodies(world.client.value()), [ask.answer() for ask in asks])
        arrived = [(request.method, request.body) for request in world.upstream.take_requests()]
        passed = [(ask.method, ask.body()) for ask in asks if ask.kind != "refused"]
        self.assertEqual(sorted(arrived), sorted(passed))
        self.assertEqual(world.client.over, leaves)
        self.assertFalse(world.client.paused)
        # only the periodic check is left
        self.assertEqual(world.edge.clock.getDelayedCalls()[1:], [])
