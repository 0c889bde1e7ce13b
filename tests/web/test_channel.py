"""The channel: limits, refusals before the body, slow and broken peers. No socket."""

from __future__ import annotations

from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.web.channel import LINGER_S, RECEIVE_S
from svcserver.web.site import SWEEP_S, FrontFactory
from tests.edge.wires import Wire
from tests.support.game import Game


class ChannelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")
        self.reactor = MemoryReactorClock()
        self.factory = FrontFactory(self.game.door, self.reactor)
        self.factory.doStart()
        self.addCleanup(self.factory.doStop)
        self.channel = self.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        self.wire = Wire(self.channel)
        self.channel.makeConnection(self.wire)
        self.addCleanup(self.wire.abortConnection)

    def send(self, *parts: bytes) -> bytes:
        self.wire.clear()
        for part in parts:
            self.channel.dataReceived(part)
        return self.wire.value()

    def auth(self) -> bytes:
        return b"Authorization: Bearer " + self.ann.token.encode() + b"\r\n"

    def test_a_request_and_another_on_the_same_connection(self) -> None:
        for _ in range(2):
            said = self.send(b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(said.startswith(b"HTTP/1.1 200 OK\r\n"))
            self.assertIn(b"Content-Length: ", said)
        self.assertNotIn(b"Twisted", said)

    def test_a_declared_50_mb_is_the_limit_and_refused_before_it_is_sent(self) -> None:
        said = self.send(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 52428801\r\n\r\n")
        self.assertTrue(said.startswith(b"HTTP/1.1 413 "))
        self.reactor.advance(LINGER_S)
        self.assertEqual(self.wire.ended, "cut")

    def test_a_chunked_body_is_counted(self) -> None:
        self.game.door.max_json = 1000
        head = b"POST /event HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        said = self.send(head, *[b"100\r\n" + b"x" * 256 + b"\r\n"] * 4)
        self.assertTrue(said.startswith(b"HTTP/1.1 413 "))

    def test_a_strangers_large_body_is_refused_before_it_is_read(self) -> None:
        for credential in (b"", b"Authorization: Bearer x.y.z\r\n"):
            self.setUp()
            head = (
                b"POST /character HTTP/1.1\r\nHost: x\r\n"
                + credential
                + b"Content-Length: 9000000\r\n\r\n"
            )
            self.assertTrue(self.send(head).startswith(b"HTTP/1.1 401 "))

    def test_a_players_large_body_is_read(self) -> None:
        body = b'{"characterId":"nope","updateVersion":1,"data":"' + b"x" * 200_000 + b'"}'
        head = b"POST /character HTTP/1.1\r\nHost: x\r\n" + self.auth()
        said = self.send(head + b"Content-Length: %d\r\n\r\n" % len(body), body)
        self.assertTrue(said.startswith(b"HTTP/1.1 404 "))

    def test_header_floods_end_the_connection(self) -> None:
        for flood in (
            b"X: y\r\n" * 600,
            b"X: " + b"y" * 15_000 + b"\r\nZ: " + b"y" * 2_000 + b"\r\n",
        ):
            self.setUp()
            said = self.send(b"GET /svc-status HTTP/1.1\r\nHost: x\r\n" + flood + b"\r\n")
            self.assertTrue(said.startswith(b"HTTP/1.1 431 "), said[:40])
            self.assertTrue(self.wire.over)

    def test_garbage_is_400_and_never_a_traceback(self) -> None:
        for garbage in (
            b"\x16\x03\x01\x02\x00\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/1.1\r\n: x\r\n\r\n",
        ):
            self.setUp()
            said = self.send(garbage)
            self.assertTrue(said == b"" or said.startswith(b"HTTP/1.1 400 "), said)

    def test_one_byte_a_minute_does_not_keep_a_connection(self) -> None:
        self.send(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        for _ in range(int(RECEIVE_S + SWEEP_S) // 5 + 1):
            if not self.wire.ended:
                self.channel.dataReceived(b"x")
            self.reactor.advance(5)
        self.assertEqual(self.wire.ended, "cut")
        self.assertEqual(self.factory.channels, set())

    def test_a_half_closed_request_leaves_nothing_behind(self) -> None:
        self.send(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        self.wire.abortConnection()
        self.assertEqual(self.factory.channels, set())

    def test_on_stop_idle_connections_close_and_busy_ones_are_counted(self) -> None:
        self.assertEqual(self.factory.close_idle(), 0)
        self.assertTrue(self.wire.disconnecting)
