"""The proxy core's timeouts for heads, bodies, answers and slow readers."""

import pytest
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.verdicts import Limits
from tests.edge.wires import GET, OK, H, gateway, run, status
from tests.support.proves import proves


class WaitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.edge = gateway(
            self.clock, limits=Limits(max_body=1_000_000, upstream_idle_s=20, tunnel_idle_s=50)
        )

    @proves("gateway: 408, 431 request_timeout, headers_too_large")
    def test_slow_heads_are_408(self) -> None:
        slow, silent = self.edge.connect(), self.edge.connect()
        slow.protocol.dataReceived(b"GET /g HT")
        for _ in range(11):
            slow.protocol.dataReceived(b"T")
            self.clock.advance(1)
        for wire in (slow, silent):
            reply = wire.take()
            self.assertEqual(status(reply), 408)
            self.assertIn(b'{"error":"request_timeout"}', reply)
            self.assertTrue(wire.over)

    @proves("gateway: 408, 431 request_timeout, headers_too_large")
    def test_slow_bodies_are_408(self) -> None:
        wire = self.edge.send(b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 99\r\n\r\n")
        for _ in range(31):
            wire.protocol.dataReceived(b"x")
            self.clock.advance(1)
        self.assertEqual(status(wire.take()), 408)
        self.assertEqual(self.edge.upstream.wires[0].ended, "cut")

    def test_an_idle_connection_is_closed_without_a_reply(self) -> None:
        reply, wire = self.edge.ask(GET)
        self.assertEqual(status(reply), 200)
        run(self.clock, 64)
        self.assertFalse(wire.over)
        run(self.clock, 3)
        self.assertEqual((wire.ended, wire.take()), ("closed", b""))

    @proves("gateway: 502, 504 bad_gateway, upstream_timeout")
    def test_a_silent_upstream_is_504(self) -> None:
        wire = self.edge.send(GET)
        run(self.clock, 23)
        reply = wire.take()
        self.assertEqual(status(reply), 504)
        self.assertIn(b'{"error":"upstream_timeout"}', reply)
        self.assertFalse(wire.over)

    def test_an_upstream_silent_in_mid_answer_cuts_the_client_off(self) -> None:
        wire = self.edge.send(GET)
        self.edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        run(self.clock, 23)
        self.assertEqual(wire.ended, "cut")

    def test_a_reader_that_stops_reading_is_cut(self) -> None:
        wire = self.edge.send(GET)
        self.edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\nabc")
        wire.producer.pauseProducing()
        self.assertTrue(self.edge.upstream.wires[0].paused)
        run(self.clock, 115)
        self.assertFalse(wire.ended)
        run(self.clock, 10)
        self.assertEqual(wire.ended, "cut")
        self.assertTrue(self.edge.upstream.wires[0].ended)

    def test_a_slow_upstream_holds_the_client_up(self) -> None:
        wire = self.edge.send(b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 9999\r\n\r\nx")
        upstream = self.edge.upstream.wires[0]
        upstream.producer.pauseProducing()
        self.assertTrue(wire.paused)
        upstream.producer.resumeProducing()
        self.assertFalse(wire.paused)

    @proves("gateway: shutdown")
    def test_nothing_is_left_over_after_a_stop(self) -> None:
        self.edge.connect()
        busy = self.edge.send(GET)
        stopped = self.edge.factory.stop(10)
        self.assertNoResult(stopped)
        self.edge.upstream.say(OK)
        self.assertIn(b"Connection: close", busy.take())
        self.successResultOf(stopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_idle_connections_get_little_time_to_say_goodbye(self) -> None:
        wire = self.edge.connect()
        wire.loseConnection = lambda: None  # type: ignore[method-assign]  # a deaf TLS peer
        self.edge.factory.stop(10)
        run(self.clock, 4)
        self.assertEqual(wire.ended, "cut")

    @proves("gateway: shutdown")
    def test_a_busy_connection_is_cut_after_the_grace_time(self) -> None:
        busy = self.edge.send(GET)
        stopped = self.edge.factory.stop(10)
        run(self.clock, 10)
        self.successResultOf(stopped)
        self.assertEqual(busy.ended, "cut")
        self.assertEqual(self.clock.getDelayedCalls(), [])


@pytest.mark.parametrize("count", [2048])
def test_idle_connections_are_closed_and_delay_no_request(count: int) -> None:
    edge = gateway()
    for _ in range(count):
        edge.connect("198.51.100.7").protocol.dataReceived(b"GET /slow")
    reply, _ = edge.ask(GET, "203.0.113.9")
    assert status(reply) == 200
    run(edge.clock, 15)
    assert len(edge.factory.channels) == 1
