"""The services parse framing as the gateway does, so no request can hide inside another."""

from itertools import pairwise
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.web.front import FinishedRequest
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from svcserver.web.site import HttpFactory
from tests.edge.desync import CASES, SMUGGLED, Case
from tests.edge.wires import Wire
from tests.support.game import Game


@define
class Taker:
    """A handler that records every request and answers 200."""

    max_json: int = 1 << 20
    requests: list[HttpRequest] = field(factory=list)

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        return None

    def page(self, status: int, why: BaseException | None) -> Answer:
        return Answer(status)

    def answer(self, request: HttpRequest) -> Deferred[Answer]:
        self.requests.append(request)
        return succeed(Answer(200, b"ok"))


# Nobody passes on what a service gets, so it is as lenient here as RFC 9112 asks a server to be:
# HTTP/1.0 needs no Host (3.2), a whole URL is a path with a host (3.2.2).
LENIENT = {
    b"GET /g HTTP/1.0\r\n\r\n": [b"/g"],
    b"GET https://evil.example/g HTTP/1.1\r\nHost: localhost\r\n\r\n": [b"/g", b"/smuggled"],
    b"GET http://localhost/g HTTP/1.1\r\nHost: localhost\r\n\r\n": [b"/g", b"/smuggled"],
}


def connect(front: Any) -> tuple[Any, Wire]:
    factory = HttpFactory(front, MemoryReactorClock())
    channel = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
    wire = Wire(channel)
    channel.makeConnection(wire)
    return channel, wire


def lapse(case: Case, pieces: int) -> str:
    """Return what the service did wrong with the case, or an empty string."""
    front = Taker()
    channel, wire = connect(front)
    data = case.data + SMUGGLED
    cuts = [len(data) * n // pieces for n in range(pieces + 1)]
    for begin, end in pairwise(cuts):
        if not wire.ended:
            channel.dataReceived(data[begin:end])
    reply = wire.value()
    paths = [request.path for request in front.requests]
    channel.connectionLost()
    if case.data in LENIENT:
        good = reply.count(b"HTTP/1.1 200 ") == len(paths)
        return "" if good and paths == LENIENT[case.data] else f"{paths} {reply[:60]!r}"
    if case.gateway == 405 or case.family == "upgrade":
        # an unknown method gets 404, and an upgrade is ignored; both are framed correctly
        return "" if len(paths) == 2 and paths[-1] == b"/smuggled" else f"arrived: {paths}"
    if case.gateway > 0:
        good = not paths and reply.startswith(b"HTTP/1.1 %d " % case.gateway) and wire.over
        return "" if good and reply.count(b"HTTP/1.1 ") == 1 else f"{paths} {reply[:60]!r}"
    if len(paths) != -case.gateway or paths[-1] != b"/smuggled":
        return f"arrived: {paths}"
    if case.body is not None and front.requests[0].body != case.body:
        return f"body: {front.requests[0].body!r}"
    return "" if reply.count(b"HTTP/1.1 200 ") == 2 else f"answered {reply!r}"


class DesyncTests(SynchronousTestCase):
    def test_the_services_give_every_verdict_of_the_gateway(self) -> None:
        for case in CASES:
            for pieces in (1, 2, 7, len(case.data)):
                with self.subTest(family=case.family, data=case.data, pieces=pieces):
                    self.assertEqual(lapse(case, pieces), "")

    def test_nothing_hidden_reaches_the_metagame(self) -> None:
        game = Game(self)
        done: list[FinishedRequest] = []
        game.door.observers = [done.append]
        for case in CASES:
            if case.gateway != 400 or case.family == "upgrade" or case.data in LENIENT:
                continue
            channel, wire = connect(game.door)
            channel.dataReceived(case.data + SMUGGLED)
            # a chunked body for an unknown path is refused before it is read
            self.assertIn(wire.value()[:13], (b"HTTP/1.1 400 ", b"HTTP/1.1 404 "), case)
            self.assertEqual((wire.value().count(b"HTTP/1.1 "), wire.over), (1, True))
            channel.connectionLost()
        self.assertNotIn(b"/smuggled", [request.request.path for request in done])
