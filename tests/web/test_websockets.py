"""The connections that an HTTP channel passes to a WebSocket protocol."""

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Protocol
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.http.connection import IN_A_ROW, MAX_BACKLOG
from svcserver.kernel.headers import GATEWAY
from svcserver.players.frames import upgrade
from svcserver.web.channel import RECEIVE_S
from svcserver.web.site import HttpFactory
from tests.edge.wires import Wire
from tests.support.game import Game

STATUS = b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n"


class RecordingProtocol(Protocol):
    """A protocol that records what it receives."""

    received = b""

    def dataReceived(self, data: bytes) -> None:
        self.received += data


class WebSocketTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.made: list[RecordingProtocol] = []
        self.reactor = MemoryReactorClock()
        front = Game(self).door
        self.factory = HttpFactory(front, self.reactor, proxy_headers=(GATEWAY,))
        self.factory.websockets = self.make
        self.factory.doStart()
        self.addCleanup(self.factory.doStop)

    def make(self, address: Any) -> Any:
        self.made.append(RecordingProtocol())
        return self.made[-1]

    def connect(self, peer: str = "127.0.0.1") -> Wire:
        channel = self.factory.buildProtocol(IPv4Address("TCP", peer, 1))
        wire = Wire(channel, peer)
        channel.makeConnection(wire)
        self.addCleanup(wire.abortConnection)
        return wire

    def send(self, data: bytes, peer: str = "127.0.0.1") -> Wire:
        wire = self.connect(peer)
        wire.protocol.dataReceived(data)
        return wire

    def test_an_upgrade_passes_with_all_bytes_to_the_protocol(self) -> None:
        request = upgrade(61000)
        for pieces in ((request + b"rest",), (request[:30], request[30:], b"rest")):
            wire = self.connect()
            for piece in pieces:
                wire.protocol.dataReceived(piece)
            [websocket] = self.made
            self.assertIs(wire.protocol, websocket)
            self.assertEqual(websocket.received, request + b"rest")
            self.assertEqual((wire.value(), wire.ended), (b"", ""))
            self.assertEqual(list(self.factory.channels), [])
            self.reactor.advance(2 * RECEIVE_S)  # the channel's deadlines do not apply any more
            self.assertEqual(wire.ended, "")
            self.made.clear()

    def test_an_upgrade_follows_the_answers_to_earlier_requests(self) -> None:
        wire = self.send(STATUS + upgrade(61000) + MAX_BACKLOG * b"x")
        self.assertTrue(wire.value().startswith(b"HTTP/1.1 200 "))
        self.assertEqual(self.made[0].received, upgrade(61000) + MAX_BACKLOG * b"x")
        self.assertFalse(wire.paused)

    def test_an_upgrade_that_a_stranger_may_have_sent_is_answered(self) -> None:
        for more in (
            "X-Forwarded-For: 203.0.113.9\r\n",
            "Via: 1.1 proxy\r\n",
            f"{GATEWAY.decode()}: a secret\r\n",
            "Origin: https://evil.example\r\n",
            "Sec-Fetch-Site: cross-site\r\n",
        ):
            wire = self.send(upgrade(61000, more=more))
            self.assertTrue(wire.value().startswith(b"HTTP/1.1 4"), more)
        foreign = upgrade(61000).replace(b"127.0.0.1:61000", b"evil.example")
        for request, peer in ((foreign, "127.0.0.1"), (upgrade(61000), "192.168.1.7")):
            self.assertTrue(self.send(request, peer).value().startswith(b"HTTP/1.1 4"), peer)
        self.assertEqual(self.made, [])

    def test_a_request_that_is_no_websocket_upgrade_is_answered(self) -> None:
        request = upgrade(61000, "/svc-status")
        for old, new, status in (
            (b"GET", b"POST", b"4"),
            (b"websocket", b"h2c", b"200"),
            (b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n{}", b"200"),
            (b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"200"),
        ):
            wire = self.send(request.replace(old, new))
            self.assertTrue(wire.value().startswith(b"HTTP/1.1 " + status), (new, wire.value()))
        self.assertEqual(self.made, [])

    def test_an_upgrade_is_answered_where_no_protocol_takes_it(self) -> None:
        for make in (None, lambda address: None):
            self.factory.websockets = make
            wire = self.send(upgrade(61000, "/svc-status"))
            self.assertTrue(wire.value().startswith(b"HTTP/1.1 200 "))

    def test_a_half_closed_client_gets_an_answer_to_its_upgrade(self) -> None:
        # this request waits for its turn
        wire = self.send(IN_A_ROW * STATUS + upgrade(61000, "/svc-status"))
        wire.protocol.readConnectionLost()
        self.reactor.advance(0)
        self.assertEqual(wire.value().count(b"HTTP/1.1 200 "), IN_A_ROW + 1)
        self.assertEqual(self.made, [])
