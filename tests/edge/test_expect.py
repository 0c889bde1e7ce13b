"""Clients that send the body only after a 100 reply, at the relay and at the gateway."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.exchange import EXPECT_S
from svcserver.edge.parking import PARK_S
from tests.edge.desync import ZERO
from tests.edge.wires import OK, Edge, H, Wire, chunked, gateway, relay, run, status
from tests.support.proves import proves

EXPECT = b"POST /p HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\n"
HEAD = EXPECT + b"Content-Length: 5\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def waiting(edge: Edge, head: bytes = HEAD) -> Wire:
    """Return a client that has sent its head and waits for 100."""
    wire = edge.send(head)
    return wire


class RelayTests(SynchronousTestCase):
    @proves("relay: forwards every request unchanged")
    def test_the_expectation_and_its_answer_are_passed_on(self) -> None:
        edge = relay()
        wire = edge.connect()
        for head, body in ((HEAD, b"hello"), (EXPECT + b"Transfer-Encoding: chunked\r\n\r\n", b"")):
            wire.protocol.dataReceived(head)
            request = edge.upstream.take_requests()[-1]
            self.assertEqual(request.value(b"expect"), b"100-continue")
            self.assertEqual(wire.take(), b"")
            edge.upstream.say(CONTINUE)
            self.assertEqual(wire.take(), CONTINUE)
            wire.protocol.dataReceived(body or chunked(b"hello") + ZERO)
            request = edge.upstream.take_requests()[-1]
            self.assertEqual((request.body, request.complete), (b"hello", True))
            edge.upstream.say(OK)
            self.assertEqual((wire.take(), wire.over), (OK, False))

    def test_a_refusal_comes_before_the_body_is_sent(self) -> None:
        for code in (401, 413, 429, 503):
            edge = relay()
            wire = waiting(edge)
            edge.upstream.say(b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\nno" % code)
            reply = wire.take()
            self.assertEqual((status(reply), reply.count(b"HTTP/1.1 ")), (code, 1))
            self.assertIn(b"Connection: close\r\n", reply)
            self.assertTrue(reply.endswith(b"no"))
            self.assertEqual((wire.over, edge.upstream.wires[0].ended), (True, "cut"))
            wire.protocol.dataReceived(b"hello")
            self.assertEqual([request.body for request in edge.upstream.take_requests()], [b""])

    def test_a_silent_upstream_does_not_hold_the_body_for_ever(self) -> None:
        edge = relay()
        wire = waiting(edge)
        run(edge.clock, EXPECT_S - 1)
        self.assertEqual(wire.take(), b"")
        run(edge.clock, 1)
        self.assertEqual(wire.take(), CONTINUE)
        edge.upstream.say(CONTINUE)
        self.assertEqual(wire.take(), b"", "a second one might be read as the answer")
        wire.protocol.dataReceived(b"hello")
        edge.upstream.serve()
        self.assertEqual(wire.take(), OK)

    def test_a_client_that_does_not_wait_is_not_answered_100(self) -> None:
        edge = relay()
        wire = waiting(edge, HEAD + b"he")
        edge.upstream.say(CONTINUE)
        wire.protocol.dataReceived(b"llo")
        run(edge.clock, EXPECT_S + 1)
        edge.upstream.serve()
        self.assertEqual(wire.take(), OK)

    def test_an_answer_that_has_begun_is_never_cut_by_100(self) -> None:
        edge = relay()
        wire = waiting(edge)
        edge.upstream.say(b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nn")
        run(edge.clock, EXPECT_S + 1)
        edge.upstream.say(b"o")
        reply = wire.take()
        self.assertEqual((status(reply), reply.count(b"HTTP/1.1 "), reply[-2:]), (503, 1, b"no"))

    def test_no_gateway_is_a_refusal_before_the_body(self) -> None:
        edge = relay()
        edge.upstream.down = True
        self.assertEqual(status(waiting(edge).take()), 502)

    def test_a_103_answer_is_not_passed_on(self) -> None:
        edge = relay()
        wire = waiting(edge)
        edge.upstream.say(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        self.assertEqual(wire.take(), b"")


class GatewayTests(SynchronousTestCase):
    def test_the_body_waits_until_the_metagame_is_back(self) -> None:
        edge = gateway()
        edge.upstream.parks()
        edge.ask(b"GET /g HTTP/1.1\r\n" + H + b"\r\n")
        edge.upstream.end()
        wire = waiting(edge)
        run(edge.clock, PARK_S - 2)
        self.assertEqual((wire.take(), wire.protocol.idle()), (b"", None))
        edge.upstream.down = False
        run(edge.clock, 1)
        self.assertEqual(wire.take(), CONTINUE)
        self.assertIsNotNone(wire.protocol.idle(), "now it is the client that is waited for")
        wire.protocol.dataReceived(b"hello")
        edge.upstream.serve()
        self.assertEqual(wire.take(), OK)

    def test_a_metagame_that_stays_away_is_a_503_before_the_body(self) -> None:
        edge = gateway()
        edge.upstream.parks()
        edge.ask(b"GET /g HTTP/1.1\r\n" + H + b"\r\n")
        edge.upstream.end()
        wire = waiting(edge)
        run(edge.clock, PARK_S + 1)
        reply = wire.take()
        self.assertEqual((status(reply), reply.count(b"HTTP/1.1 ")), (503, 1))
