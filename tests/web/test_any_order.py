"""Every answer is sent in order, whatever the order of requests and slow reads.

Immediate, delayed and streamed answers are mixed; bytes arrive in pieces of any size; a client
may close its sending side.
"""

from typing import Any

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.http import connection
from svcserver.web.request import HttpRequest
from svcserver.web.response import Stream
from svcserver.web.routes import Answer
from svcserver.web.site import HttpFactory
from tests.edge.wires import Wire, pieces_of

LARGE = 70_000  # more bytes than may be buffered
KINDS = st.sampled_from(["now", "later", "stream"])
FRAMES = st.sampled_from(["none", "counted", "chunked"])
SIZES = st.sampled_from([0, 1, 300, LARGE])
STEPS = st.lists(
    st.sampled_from(["client", "answer", "slow", "quick", "turn"]), min_size=20, max_size=80
)


class Halves(Stream):
    """A body that is written in two parts, the second part on demand."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.out: Any = None

    def begin(self, out: Any) -> None:
        self.out = out
        out.transport.write(self.body[:2])

    def go_on(self) -> None:
        """Write the rest of the body."""
        self.out.transport.write(self.body[2:])
        self.out.finish()


@define
class Front:
    """A handler that answers immediately, later, or as a stream."""

    max_json: int = 1_000_000
    later: list[tuple[Deferred[Answer], Answer]] = field(factory=list)
    streams: list[Halves] = field(factory=list)

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        return None

    def page(self, status: int, why: BaseException | None) -> Answer:
        return Answer(status)

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        body = b"%b %d" % (request.path, len(request.body))
        if request.path.startswith(b"/stream"):
            self.streams.append(Halves(body))
            return Answer(200, self.streams[-1], {"Content-Length": str(len(body))})
        if request.path.startswith(b"/now"):
            return Answer(200, body)
        self.later.append((Deferred(), Answer(200, body)))
        return self.later[-1][0]

    def go_on(self) -> None:
        """Send one more delayed answer."""
        if self.streams:
            self.streams.pop(0).go_on()
        elif self.later:
            coming, answer = self.later.pop(0)
            coming.callback(answer)


@define
class Ask:
    """A request and its expected answer."""

    path: bytes
    frame: str
    size: int

    def sent(self) -> bytes:
        """Return the request's bytes."""
        method = b"GET" if self.frame == "none" else b"POST"
        head, body = b"%b %b HTTP/1.1\r\nHost: x\r\n" % (method, self.path), b"x" * self.size
        if self.frame == "none":
            return head + b"\r\n"
        if self.frame == "counted":
            return head + b"Content-Length: %d\r\n\r\n" % self.size + body
        chunk = b"%x\r\n%b\r\n" % (self.size, body) if body else b""
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n"

    def answer(self) -> bytes:
        """Return the expected body of the answer."""
        return b"%b %d" % (self.path, 0 if self.frame == "none" else self.size)


ASKS = st.lists(st.tuples(KINDS, FRAMES, SIZES), min_size=3, max_size=24).map(
    lambda many: [
        Ask(b"/%b/%d" % (kind.encode(), number), frame, size)
        for number, (kind, frame, size) in enumerate(many)
    ]
)


@define
class World:
    """A service with one client."""

    pieces: list[bytes]
    leaves: bool  # whether the client closes once it has sent everything
    front: Front = field(factory=Front)
    clock: Clock = field(factory=Clock)
    factory: HttpFactory = field(init=False)
    client: Wire = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.factory = HttpFactory(self.front, self.clock)
        protocol = self.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        self.client = Wire(protocol)
        protocol.makeConnection(self.client)

    def step(self, what: str) -> None:
        """Perform one random event."""
        producer: Any = self.client.producer
        if what == "client" and not self.client.paused:
            if self.pieces:
                self.client.protocol.dataReceived(self.pieces.pop(0))
            elif self.leaves:
                self.leaves = False
                self.client.protocol.readConnectionLost()
        elif what == "answer":
            self.front.go_on()
        elif what == "turn":
            self.clock.advance(0)
        elif what == "slow" and producer is not None:
            producer.pauseProducing()
        elif what == "quick" and producer is not None:
            producer.resumeProducing()

    def finish(self) -> None:
        """Let client and service finish without delays."""
        for _ in range(150):
            for what in ("quick", "turn", "client", "answer"):
                self.step(what)


def bodies(reply: bytes) -> list[bytes]:
    """Return the bodies of consecutive answers."""
    result: list[bytes] = []
    while reply:
        head, _, rest = reply.partition(b"\r\n\r\n")
        size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        result.append(rest[:size])
        reply = rest[size:]
    return result


class AnyOrderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(connection, "IN_A_ROW", 2)

    @settings(max_examples=60, deadline=None)
    @given(ASKS, STEPS, st.booleans(), st.data())
    def test_every_request_is_answered_in_its_turn(
        self, asks: list[Ask], steps: list[str], leaves: bool, data: st.DataObject
    ) -> None:
        raw = b"".join(ask.sent() for ask in asks)
        world = World(pieces_of(raw, data), leaves)
        for what in steps:
            world.step(what)
        world.finish()
        self.assertEqual(bodies(world.client.value()), [ask.answer() for ask in asks])
        self.assertEqual(world.client.over, leaves)
        self.assertFalse(world.client.paused and not leaves)
        self.assertEqual(world.factory.held, 0)
