"""A slow peer delays only its own connection, and no data accumulates meanwhile."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.upstream import Pool, UpstreamConnection
from svcserver.http.connection import IN_A_ROW
from tests.edge.wires import OK, Edge, gateway, relay, run, sent
from tests.support.proves import proves

H = b"Host: localhost\r\n"
GET = b"GET /g HTTP/1.1\r\n" + H + b"\r\n"
CLOSED = b"GET /svc/x HTTP/1.1\r\n" + H + b"\r\n"
REFUSED = b"HTTP/1.1 403 "


class SlowReaderTests(SynchronousTestCase):
    @proves("limit: back-pressure end to end")
    def test_no_request_is_passed_on_before_the_answers_are_read(self) -> None:
        edge, wire = sent(gateway(), GET)
        wire.producer.pauseProducing()
        edge.upstream.say(OK)
        wire.protocol.dataReceived(GET + GET)
        self.assertEqual(len(edge.upstream.take_requests()), 1)
        wire.producer.resumeProducing()
        self.assertEqual(len(edge.upstream.take_requests()), 2)
        edge.upstream.say(OK)
        edge.upstream.say(OK)
        self.assertEqual(wire.take(), OK * 3)

    def test_no_request_is_refused_before_the_answers_are_read(self) -> None:
        wire = gateway().connect()
        wire.producer.pauseProducing()
        wire.protocol.dataReceived(CLOSED * 3)
        self.assertEqual(wire.take(), b"")
        wire.producer.resumeProducing()
        self.assertEqual(wire.take().count(REFUSED), 3)

    def test_requests_of_a_slow_reader_wait_outside(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.producer.pauseProducing()
        wire.protocol.dataReceived(CLOSED * 3_000)
        self.assertTrue(wire.paused)
        wire.producer.resumeProducing()
        for _ in range(3_000):
            edge.clock.advance(0)
        self.assertFalse(wire.paused)
        self.assertEqual(wire.take().count(REFUSED), 3_000)

    def test_a_slow_reader_is_cut_in_the_end(self) -> None:
        edge, wire = sent(gateway(), GET)
        wire.producer.pauseProducing()
        edge.upstream.say(OK)
        run(edge.clock, 67)
        self.assertTrue(wire.ended)

    def test_a_slow_reader_gets_all_answers_after_a_half_close(self) -> None:
        wire = relay().connect()
        wire.producer.pauseProducing()
        wire.protocol.dataReceived(b"GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n" * 2)
        wire.protocol.readConnectionLost()
        self.assertFalse(wire.over)
        wire.producer.resumeProducing()
        self.assertEqual(wire.take().count(REFUSED), 2)
        self.assertTrue(wire.over)

    def test_an_ending_connection_waits_for_no_producer(self) -> None:
        for ended in (self.refused, self.answered_and_closed, self.stopped):
            wire = ended(gateway())
            self.assertTrue(wire.over)
            self.assertIsNone(wire.producer)

    def refused(self, edge: Edge) -> Any:
        return edge.ask(b"nonsense\r\n\r\n")[1]

    def answered_and_closed(self, edge: Edge) -> Any:
        return edge.ask(GET[:-2] + b"Connection: close\r\n\r\n")[1]

    def stopped(self, edge: Edge) -> Any:
        wire = edge.connect()
        edge.factory.stop(10)
        return wire


class TurnTests(SynchronousTestCase):
    def test_many_refusals_of_one_connection_are_spread_over_turns(self) -> None:
        edge, wire = sent(gateway(), CLOSED * (3 * IN_A_ROW))
        self.assertEqual(wire.take().count(REFUSED), IN_A_ROW)
        wire.protocol.dataReceived(CLOSED)
        self.assertEqual(wire.take(), b"")
        for _ in range(4):
            edge.clock.advance(0)
        self.assertEqual(wire.take().count(REFUSED), 2 * IN_A_ROW + 1)

    def test_requests_before_a_half_close_are_all_answered(self) -> None:
        edge, wire = sent(gateway(), CLOSED * (2 * IN_A_ROW))
        wire.protocol.readConnectionLost()
        self.assertFalse(wire.over)
        edge.clock.advance(0)
        self.assertEqual(wire.take().count(REFUSED), 2 * IN_A_ROW)
        self.assertTrue(wire.over)

    def test_a_client_that_leaves_loses_its_turn(self) -> None:
        edge, wire = sent(gateway(), CLOSED * (2 * IN_A_ROW))
        wire.abortConnection()
        self.successResultOf(edge.factory.stop(0))
        self.assertEqual(edge.clock.getDelayedCalls(), [])


class SlowUpstreamTests(SynchronousTestCase):
    @proves("limit: back-pressure end to end")
    def test_an_upload_that_was_faster_than_its_connection_goes_on(self) -> None:
        edge = relay()
        arrived = self.held_up(edge.upstream.pool)
        wire = edge.send(
            b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 200000\r\n\r\n" + b"x" * 60_000
        )
        wire.protocol.dataReceived(b"x" * 60_000)
        self.assertTrue(wire.paused)
        upstream = arrived()
        self.assertFalse(wire.paused)
        wire.protocol.dataReceived(b"x" * 80_000)
        self.assertEqual(upstream.value().count(b"x"), 200_000)

    def test_half_closed_uploads_get_their_answer_when_they_are_whole(self) -> None:
        head = b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 2\r\n\r\n"
        for body, whole in ((b"hi", True), (b"h", False)):
            edge = relay()
            arrived = self.held_up(edge.upstream.pool)
            wire = edge.send(head + body)
            wire.protocol.readConnectionLost()
            self.assertFalse(wire.over)
            upstream = arrived()
            self.assertTrue(upstream.value().endswith(body))
            self.assertEqual(wire.over, not whole)

    def held_up(self, pool: Pool) -> Callable[[], StringTransport]:
        """Delay the pool's connection; return a function that lets the connection open."""
        coming: Deferred[Any] = Deferred()
        pool.connect = lambda _: coming

        def arrive() -> StringTransport:
            connection, transport = UpstreamConnection(pool), StringTransport()
            transport.setTcpNoDelay = lambda _: None  # type: ignore[method-assign]
            connection.makeConnection(transport)
            coming.callback(connection)
            return transport

        return arrive
