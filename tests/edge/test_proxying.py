"""The core at work: framing, pipelining, waits, back-pressure, tunnels, stops."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.verdicts import Limits
from svcserver.gateway.policy import Route
from tests.edge.wires import OK, SECRET, Edge, Wire, gateway, relay, run

H = b"Host: localhost\r\n"
GET = b"GET /g HTTP/1.1\r\n" + H + b"\r\n"
SOCKET = (
    b"GET // HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n"
    b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n"
)
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: y\r\n\r\n"
)


def status(said: bytes) -> int:
    return int(said.split(b" ", 2)[1]) if said else 0


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


class HeaderTests(SynchronousTestCase):
    def test_the_gateway_sets_its_own_and_drops_the_clients(self) -> None:
        edge = gateway()
        forged = (
            b"X-Forwarded-For: 6.6.6.6\r\nx-forwarded-proto: ftp\r\nX-Forwarded-Host: a\r\n"
            b"X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /\r\nForwarded: for=6\r\nX-Real-IP: 6\r\n"
            b"X-Client-IP: 6\r\nTrue-Client-IP: 6\r\nCF-Connecting-IP: 6\r\nX-Svc-Gateway: no\r\n"
            b"Connection: Host, X-Svc-Gateway, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"
            b"Proxy-Authorization: a\r\nProxy-Anything: a\r\nTE: trailers\r\nTrailer: a\r\n"
            b"X-Kept: a\r\nX-kept: b\r\n"
        )
        edge.ask(b"GET /a?b=%20c HTTP/1.1\r\n" + H + forged + b"\r\n", "203.0.113.9")
        [seen] = edge.upstream.seen()
        self.assertEqual(
            seen.headers,
            [
                (b"Host", b"localhost"),
                (b"X-Kept", b"a"),
                (b"X-kept", b"b"),
                (b"X-Forwarded-For", b"203.0.113.9"),
                (b"X-Forwarded-Proto", b"https"),
                (b"X-Svc-Gateway", SECRET.encode()),
            ],
        )
        self.assertEqual(seen.target, b"/a?b=%20c")

    def test_answers_lose_what_only_concerns_the_upstream(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        edge.upstream.say(
            b"HTTP/1.1 200 Very Fine\r\nX-Powered-By: x\r\nX-Svc-Gateway: s\r\nSet-Cookie: a\r\n"
            b"Set-Cookie: b\r\nKeep-Alive: 5\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
            b"Content-Length: 0\r\n\r\n"
        )
        self.assertEqual(
            wire.take(),
            b"HTTP/1.1 200 Very Fine\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
            b"Content-Length: 0\r\n\r\n",
        )

    def test_the_relay_forwards_unchanged(self) -> None:
        edge = relay()
        edge.ask(b"PUT /A%41?x HTTP/1.1\r\n" + H + b"X-B: 1\r\nx-b: 2\r\n\r\n")
        [seen] = edge.upstream.seen()
        self.assertEqual(
            (seen.target, seen.headers),
            (b"/A%41?x", [(b"Host", b"localhost"), (b"X-B", b"1"), (b"x-b", b"2")]),
        )

    def test_head_keeps_the_length_and_has_no_body(self) -> None:
        edge = relay()
        wire = edge.connect()
        wire.protocol.dataReceived(b"HEAD /g HTTP/1.1\r\n" + H + b"\r\n" + GET)
        edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n")
        self.assertIn(b"Content-Length: 77\r\n\r\n", wire.take())
        edge.upstream.say(OK)
        self.assertTrue(wire.take().endswith(b"ok"))


class FramingTests(SynchronousTestCase):
    def test_chunks_stay_chunks_both_ways(self) -> None:
        edge = gateway()
        wire = edge.connect()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        wire.protocol.dataReceived(head + chunked(b"hel"))
        wire.protocol.dataReceived(chunked(b"lo") + b"0\r\n\r\n")
        [seen] = edge.upstream.seen()
        self.assertEqual((seen.body, seen.complete), (b"hello", True))
        self.assertEqual(seen.value(b"transfer-encoding"), b"chunked")
        edge.upstream.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        edge.upstream.say(chunked(b"a", b"b"))
        edge.upstream.say(b"0\r\n\r\n")
        self.assertTrue(wire.take().endswith(b"\r\n\r\n2\r\nab\r\n0\r\n\r\n"))
        self.assertFalse(wire.over)

    def test_an_old_client_gets_no_chunks(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(b"GET /g HTTP/1.0\r\n" + H + b"\r\n")
        edge.upstream.say(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"ab") + b"0\r\n\r\n"
        )
        self.assertEqual(wire.take(), b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab")
        self.assertEqual(wire.ended, "closed")

    def test_an_answer_until_the_end_becomes_chunks(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        edge.upstream.say(b"HTTP/1.0 200 OK\r\n\r\nabc")
        edge.upstream.wires[-1].loseConnection()
        self.assertTrue(
            wire.take().endswith(b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        )
        self.assertFalse(wire.over)

    def test_an_answer_with_two_lengths_is_no_answer(self) -> None:
        for bad in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 2000 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            b"garbage\r\n\r\n",
            b"HTTP/1.1 101 Switching\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
        ):
            with self.subTest(bad=bad[:60]):
                edge = gateway()
                wire = edge.connect()
                wire.protocol.dataReceived(GET)
                edge.upstream.say(bad)
                self.assertEqual(status(wire.take()), 502)
                self.assertTrue(edge.upstream.wires[-1].ended)

    def test_what_follows_an_answer_unasked_ends_that_upstream(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        edge.upstream.say(OK + OK)
        self.assertEqual(wire.take().count(b"200 OK"), 1)
        self.assertEqual(edge.upstream.wires[0].ended, "cut")

    def test_interim_answers_stay_here(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        edge.upstream.say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n" + OK)
        self.assertEqual(wire.take(), OK)

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(
            b"".join(b"GET /%d HTTP/1.1\r\n" % n + H + b"\r\n" for n in range(5))
        )
        for n in range(5):
            self.assertEqual(len(edge.upstream.seen()), n + 1)
            edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % n)
        bodies = [part[-1:] for part in wire.take().split(b"HTTP/1.1 200")[1:]]
        self.assertEqual(bodies, [b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual(len(edge.upstream.wires), 1)

    def test_a_pipelined_flood_waits_outside(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        wire.protocol.dataReceived(GET * 3_000)
        self.assertTrue(wire.paused)
        edge.upstream.always = OK
        for _ in range(3_000):
            edge.upstream.say(OK)
        self.assertFalse(wire.paused)

    def test_half_closed_clients_get_their_answer(self) -> None:
        edge = relay()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        wire.protocol.readConnectionLost()
        edge.upstream.say(OK)
        self.assertTrue(wire.take().endswith(b"ok"))
        self.assertEqual(wire.ended, "closed")

    def test_half_closed_clients_get_every_answer_they_asked_for(self) -> None:
        edge = relay()
        wire = edge.connect()
        wire.protocol.dataReceived(GET + GET + b"GET /half")
        wire.protocol.readConnectionLost()
        edge.upstream.say(OK)
        self.assertFalse(wire.over)
        edge.upstream.say(OK)
        self.assertEqual(wire.take(), OK + OK)
        self.assertEqual(wire.ended, "closed")

    def test_expect_is_answered_here_and_goes_no_further(self) -> None:
        edge = gateway()
        wire = edge.connect()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        wire.protocol.dataReceived(head)
        self.assertEqual(wire.take(), b"HTTP/1.1 100 Continue\r\n\r\n")
        wire.protocol.dataReceived(b"hello")
        [seen] = edge.upstream.seen()
        self.assertEqual(seen.body, b"hello")
        self.assertNotIn(b"expect", [name.lower() for name, _ in seen.headers])


class LimitTests(SynchronousTestCase):
    def test_a_declared_body_over_the_cap_is_not_read(self) -> None:
        for extra in (b"", b"Expect: 100-continue\r\n"):
            edge = gateway()
            said, wire = edge.ask(
                b"POST /p HTTP/1.1\r\n" + H + extra + b"Content-Length: 131073\r\n\r\n"
            )
            self.assertEqual(status(said), 413)
            self.assertIn(b"Connection: close", said)
            self.assertIn(b'{"error":"body_too_large"}', said)
            self.assertEqual(edge.upstream.wires, [])
            self.assertTrue(wire.half_closed)
            wire.protocol.dataReceived(b"x" * 70_000)
            run(edge.clock, 5)
            self.assertEqual(wire.ended, "cut")

    def test_a_chunked_body_is_cut_at_the_cap(self) -> None:
        edge = gateway()
        wire = edge.connect()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        wire.protocol.dataReceived(head + chunked(b"x" * 100_000))
        wire.protocol.dataReceived(chunked(b"x" * 40_000))
        self.assertEqual(status(wire.take()), 413)
        self.assertEqual(edge.upstream.wires[0].ended, "cut")
        self.assertFalse(any(one.complete for one in edge.upstream.seen()))

    def test_a_body_of_exactly_the_cap_passes(self) -> None:
        edge = gateway()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 131072\r\n\r\n"
        self.assertEqual(status(edge.ask(head + b"x" * 131_072)[0]), 200)

    def test_heads_over_16_kib_are_431(self) -> None:
        for data in (b"GET /" + b"a" * 20_000, GET[:-2] + b"A: " + b"b" * 16_400 + b"\r\n\r\n"):
            said, wire = gateway().ask(data)
            self.assertEqual(status(said), 431)
            self.assertIn(b"headers_too_large", said)
            self.assertTrue(wire.over)

    def test_unknown_methods_are_405(self) -> None:
        for method in (b"TRACE", b"CONNECT", b"get", b"PROPFIND", b"X"):
            said, _ = gateway().ask(method + b" /g HTTP/1.1\r\n" + H + b"\r\n")
            self.assertEqual(status(said), 405)
            self.assertIn(b'{"error":"method_not_allowed"}', said)

    def test_a_refused_body_does_not_become_the_next_request(self) -> None:
        edge = gateway()
        body = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        head = b"POST /svc/api/x HTTP/1.1\r\n" + H + b"Content-Length: %d\r\n\r\n" % len(body)
        said, _ = edge.ask(head + body + GET)
        self.assertEqual(said.count(b"403 Forbidden"), 1)
        self.assertEqual([one.target for one in edge.upstream.seen()], [b"/g"])


class WaitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.edge = gateway(
            self.clock, limits=Limits(max_body=1_000_000, upstream_idle_s=20, tunnel_idle_s=50)
        )

    def test_slow_heads_are_408(self) -> None:
        slow, silent = self.edge.connect(), self.edge.connect()
        slow.protocol.dataReceived(b"GET /g HT")
        for _ in range(11):
            slow.protocol.dataReceived(b"T")
            self.clock.advance(1)
        for wire in (slow, silent):
            said = wire.take()
            self.assertEqual(status(said), 408)
            self.assertIn(b'{"error":"request_timeout"}', said)
            self.assertTrue(wire.over)

    def test_slow_bodies_are_408(self) -> None:
        wire = self.edge.connect()
        wire.protocol.dataReceived(b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 99\r\n\r\n")
        for _ in range(31):
            wire.protocol.dataReceived(b"x")
            self.clock.advance(1)
        self.assertEqual(status(wire.take()), 408)
        self.assertEqual(self.edge.upstream.wires[0].ended, "cut")

    def test_idle_connections_close_without_a_word(self) -> None:
        said, wire = self.edge.ask(GET)
        self.assertEqual(status(said), 200)
        run(self.clock, 64)
        self.assertFalse(wire.over)
        run(self.clock, 3)
        self.assertEqual((wire.ended, wire.take()), ("closed", b""))

    def test_a_silent_upstream_is_504(self) -> None:
        wire = self.edge.connect()
        wire.protocol.dataReceived(GET)
        run(self.clock, 23)
        said = wire.take()
        self.assertEqual(status(said), 504)
        self.assertIn(b'{"error":"upstream_timeout"}', said)
        self.assertFalse(wire.over)

    def test_silence_in_the_middle_of_an_answer_cuts(self) -> None:
        wire = self.edge.connect()
        wire.protocol.dataReceived(GET)
        self.edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        run(self.clock, 23)
        self.assertEqual(wire.ended, "cut")

    def test_a_reader_that_stops_reading_is_cut(self) -> None:
        wire = self.edge.connect()
        wire.protocol.dataReceived(GET)
        self.edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\nabc")
        wire.producer.pauseProducing()
        self.assertTrue(self.edge.upstream.wires[0].paused)
        run(self.clock, 115)
        self.assertFalse(wire.ended)
        run(self.clock, 10)
        self.assertEqual(wire.ended, "cut")
        self.assertTrue(self.edge.upstream.wires[0].ended)

    def test_a_slow_upstream_holds_the_client_up(self) -> None:
        wire = self.edge.connect()
        wire.protocol.dataReceived(b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 9999\r\n\r\nx")
        upstream = self.edge.upstream.wires[0]
        upstream.producer.pauseProducing()
        self.assertTrue(wire.paused)
        upstream.producer.resumeProducing()
        self.assertFalse(wire.paused)

    def test_nothing_is_left_over_after_a_stop(self) -> None:
        self.edge.connect()
        busy = self.edge.connect()
        busy.protocol.dataReceived(GET)
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

    def test_the_grace_time_ends(self) -> None:
        busy = self.edge.connect()
        busy.protocol.dataReceived(GET)
        stopped = self.edge.factory.stop(10)
        run(self.clock, 10)
        self.successResultOf(stopped)
        self.assertEqual(busy.ended, "cut")
        self.assertEqual(self.clock.getDelayedCalls(), [])


class UpstreamTests(SynchronousTestCase):
    def test_an_upstream_that_is_down_is_502(self) -> None:
        for edge, code in ((gateway(), b"bad_gateway"), (relay(), b"upstream_unreachable")):
            edge.upstream.down = True
            said, wire = edge.ask(GET)
            self.assertEqual(status(said), 502)
            self.assertIn(b'{"error":"%b"}' % code, said)
            self.assertFalse(wire.over)

    def test_a_reset_before_the_answer_is_502(self) -> None:
        for edge, code in ((gateway(), b"bad_gateway"), (relay(), b"upstream_unreachable")):
            wire = edge.connect()
            wire.protocol.dataReceived(GET)
            edge.upstream.wires[0].abortConnection()
            said = wire.take()
            self.assertEqual(status(said), 502)
            self.assertIn(b'{"error":"%b"}' % code, said)

    def test_a_reset_after_the_head_cuts(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        edge.upstream.wires[0].abortConnection()
        self.assertEqual(wire.ended, "cut")

    def test_connections_are_used_again(self) -> None:
        edge = gateway()
        for _ in range(3):
            edge.ask(GET)
        self.assertEqual(len(edge.upstream.wires), 1)

    def test_a_kept_connection_that_died_is_tried_again_for_get_only(self) -> None:
        for data, tries in ((GET, 2), (b"POST /p HTTP/1.1\r\n" + H + b"\r\n", 1)):
            edge = gateway()
            edge.ask(GET)
            wire = edge.connect()
            wire.protocol.dataReceived(data)
            edge.upstream.wires[0].abortConnection()
            self.assertEqual(len(edge.upstream.wires), tries)
            if tries == 2:
                edge.upstream.say(OK)
            self.assertEqual(status(wire.take()), 200 if tries == 2 else 502)

    def test_kept_connections_are_not_kept_for_ever(self) -> None:
        edge = gateway()
        edge.ask(GET)
        edge.upstream.pool.sweep(29)
        self.assertFalse(edge.upstream.wires[0].ended)
        edge.upstream.pool.sweep(31)
        self.assertTrue(edge.upstream.wires[0].ended)

    def test_a_client_that_leaves_takes_its_upstream_with_it(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(GET)
        wire.abortConnection()
        self.assertEqual(edge.upstream.wires[0].ended, "cut")

    def test_an_early_answer_ends_an_upload(self) -> None:
        edge = gateway()
        wire = edge.connect()
        wire.protocol.dataReceived(b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 99\r\n\r\nx")
        edge.upstream.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        said = wire.take()
        self.assertEqual(status(said), 413)
        self.assertIn(b"Connection: close", said)
        self.assertTrue(wire.half_closed)
        self.assertEqual(edge.upstream.wires[0].ended, "cut")


class TunnelTests(SynchronousTestCase):
    def open(self, edge: Edge) -> tuple[Wire, Wire]:
        client = edge.connect()
        client.protocol.dataReceived(SOCKET)
        chat = edge.upstreams[Route.WS]
        self.said = chat.wires[-1].take()
        chat.say(SWITCHED + b"hello")
        return client, chat.wires[-1]

    def test_bytes_flow_both_ways_untouched(self) -> None:
        for edge in (gateway(), relay()):
            client, chat = self.open(edge)
            self.assertTrue(self.said.startswith(b"GET // HTTP/1.1\r\n"))
            self.assertIn(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", self.said)
            said = client.take()
            self.assertTrue(said.startswith(b"HTTP/1.1 101 Switching Protocols\r\n"))
            self.assertIn(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", said)
            self.assertTrue(said.endswith(b"\r\n\r\nhello"))
            client.protocol.dataReceived(b"\x81\x00GET / HTTP/1.1\r\n\r\n")
            self.assertEqual(chat.take(), b"\x81\x00GET / HTTP/1.1\r\n\r\n")

    def test_nothing_goes_up_before_the_upgrade_is_granted(self) -> None:
        edge = gateway()
        client = edge.connect()
        client.protocol.dataReceived(SOCKET + b"early")
        chat = edge.upstreams[Route.WS]
        self.assertNotIn(b"early", chat.wires[0].take())
        chat.say(SWITCHED)
        self.assertEqual(chat.wires[0].take(), b"early")

    def test_a_refused_upgrade_is_passed_on_and_the_connection_ends(self) -> None:
        for edge in (gateway(), relay()):
            client = edge.connect()
            client.protocol.dataReceived(SOCKET + GET)
            edge.upstreams[Route.WS].say(
                b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno"
            )
            self.assertEqual(status(client.take()), 426)
            self.assertTrue(client.over)

    def test_either_end_ends_the_other(self) -> None:
        client, chat = self.open(gateway())
        client.abortConnection()
        self.assertTrue(chat.ended)
        client, chat = self.open(gateway())
        chat.abortConnection()
        self.assertTrue(client.ended)

    def test_waits_for_the_handshake_and_for_bytes_end(self) -> None:
        edge = gateway()
        client = edge.connect()
        client.protocol.dataReceived(SOCKET)
        run(edge.clock, 13)
        self.assertEqual(status(client.take()), 504)
        edge = gateway()
        client, chat = self.open(edge)
        run(edge.clock, 303)
        self.assertEqual(client.ended, "cut")
        self.assertTrue(chat.ended)

    def test_tunnels_end_at_once_when_the_service_stops(self) -> None:
        edge = gateway()
        client, _ = self.open(edge)
        self.successResultOf(edge.factory.stop(10))
        self.assertTrue(client.ended)

    def test_slow_readers_hold_the_other_side_up(self) -> None:
        client, chat = self.open(gateway())
        client.producer.pauseProducing()
        self.assertTrue(chat.paused)
        chat.producer.pauseProducing()
        self.assertTrue(client.paused)
        client.producer.resumeProducing()
        chat.producer.resumeProducing()
        self.assertFalse(chat.paused or client.paused)

    def test_an_upgrade_without_chat_is_502(self) -> None:
        edge = gateway()
        edge.upstreams[Route.WS].down = True
        self.assertEqual(status(edge.ask(SOCKET)[0]), 502)


@pytest.mark.parametrize("count", [2048])
def test_idle_connections_and_one_at_work(count: int) -> None:
    edge = gateway()
    for _ in range(count):
        edge.connect("198.51.100.7").protocol.dataReceived(b"GET /slow")
    said, _ = edge.ask(GET, "203.0.113.9")
    assert status(said) == 200
    run(edge.clock, 15)
    assert len(edge.factory.channels) == 1
