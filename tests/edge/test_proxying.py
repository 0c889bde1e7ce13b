"""The core of the proxy: headers, framing, pipelining, limits and upstreams."""

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.http import heads
from tests.edge.wires import GET, OK, SECRET, H, chunked, gateway, relay, run, sent, status
from tests.support.proves import proves


class HeaderTests(SynchronousTestCase):
    @proves(
        "authentication 8: forwarding headers stripped and set",
        "authentication 9: a client cannot unmark a proxied request",
    )
    def test_the_gateway_replaces_forwarding_headers_of_the_client(self) -> None:
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
        [request] = edge.upstream.take_requests()
        self.assertEqual(
            request.headers,
            [
                (b"Host", b"localhost"),
                (b"X-Kept", b"a"),
                (b"X-kept", b"b"),
                (b"X-Forwarded-For", b"203.0.113.9"),
                (b"X-Forwarded-Proto", b"https"),
                (b"X-Svc-Gateway", SECRET.encode()),
            ],
        )
        self.assertEqual(request.target, b"/a?b=%20c")

    @proves("gateway: X-Powered-By and X-Svc-Gateway removed")
    def test_responses_lose_hop_by_hop_and_internal_headers(self) -> None:
        edge, wire = sent(gateway(), GET)
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

    def test_a_head_that_comes_byte_by_byte_is_searched_once(self) -> None:
        searched: list[int] = []

        class LineFeeds:
            """A pattern that counts the searched bytes and never matches."""

            def search(self, buffer: bytes, at: int) -> None:
                searched.append(len(buffer) - at)

        self.patch(heads, "_BARE_LF", LineFeeds())
        edge, wire = sent(gateway(), GET)
        interim = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
        final = b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 2_000 + b"\r\nContent-Length: 0\r\n\r\n"
        searched.clear()
        for byte in interim + final:
            edge.upstream.say(bytes([byte]))
        self.assertEqual(wire.take(), final)
        self.assertLess(sum(searched), len(interim + final))

    @proves("relay: forwards every request unchanged")
    def test_the_relay_forwards_requests_unchanged(self) -> None:
        edge = relay()
        edge.ask(b"PUT /A%41?x HTTP/1.1\r\n" + H + b"X-B: 1\r\nx-b: 2\r\n\r\n")
        [request] = edge.upstream.take_requests()
        self.assertEqual(
            (request.target, request.headers),
            (b"/A%41?x", [(b"Host", b"localhost"), (b"X-B", b"1"), (b"x-b", b"2")]),
        )

    @proves("relay: forwards every request unchanged")
    def test_head_keeps_the_length_and_has_no_body(self) -> None:
        edge, wire = sent(relay(), b"HEAD /g HTTP/1.1\r\n" + H + b"\r\n" + GET)
        edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n")
        self.assertIn(b"Content-Length: 77\r\n\r\n", wire.take())
        edge.upstream.say(OK)
        self.assertTrue(wire.take().endswith(b"ok"))


class FramingTests(SynchronousTestCase):
    @proves("relay: forwards every request unchanged")
    def test_chunks_stay_chunks_both_ways(self) -> None:
        edge = gateway()
        wire = edge.connect()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        wire.protocol.dataReceived(head + chunked(b"hel"))
        wire.protocol.dataReceived(chunked(b"lo") + b"0\r\n\r\n")
        [request] = edge.upstream.take_requests()
        self.assertEqual((request.body, request.complete), (b"hello", True))
        self.assertEqual(request.value(b"transfer-encoding"), b"chunked")
        edge.upstream.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        edge.upstream.say(chunked(b"a", b"b"))
        edge.upstream.say(b"0\r\n\r\n")
        self.assertTrue(wire.take().endswith(b"\r\n\r\n2\r\nab\r\n0\r\n\r\n"))
        self.assertFalse(wire.over)

    def test_an_old_client_gets_no_chunks(self) -> None:
        edge, wire = sent(gateway(), b"GET /g HTTP/1.0\r\n" + H + b"\r\n")
        edge.upstream.say(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"ab") + b"0\r\n\r\n"
        )
        self.assertEqual(wire.take(), b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab")
        self.assertEqual(wire.ended, "closed")

    def test_an_answer_until_the_end_becomes_chunks(self) -> None:
        edge, wire = sent(gateway(), GET)
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
                edge, wire = sent(gateway(), GET)
                edge.upstream.say(bad)
                self.assertEqual(status(wire.take()), 502)
                self.assertTrue(edge.upstream.wires[-1].ended)

    def test_bytes_after_an_answer_close_the_upstream_connection(self) -> None:
        edge, wire = sent(gateway(), GET)
        edge.upstream.say(OK + OK)
        self.assertEqual(wire.take().count(b"200 OK"), 1)
        self.assertEqual(edge.upstream.wires[0].ended, "cut")

    def test_interim_answers_are_not_passed_on(self) -> None:
        edge, wire = sent(gateway(), GET)
        edge.upstream.say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n" + OK)
        self.assertEqual(wire.take(), OK)

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        edge, wire = sent(
            gateway(), b"".join(b"GET /%d HTTP/1.1\r\n" % n + H + b"\r\n" for n in range(5))
        )
        for n in range(5):
            self.assertEqual(len(edge.upstream.take_requests()), n + 1)
            edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % n)
        bodies = [part[-1:] for part in wire.take().split(b"HTTP/1.1 200")[1:]]
        self.assertEqual(bodies, [b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual(len(edge.upstream.wires), 1)

    def test_a_pipelined_flood_waits_outside(self) -> None:
        edge, wire = sent(gateway(), GET)
        wire.protocol.dataReceived(GET * 3_000)
        self.assertTrue(wire.paused)
        edge.upstream.always = OK
        for _ in range(3_000):
            edge.upstream.say(OK)
        self.assertFalse(wire.paused)

    @proves("relay: forwards every request unchanged")
    def test_half_closed_clients_get_their_answer(self) -> None:
        edge, wire = sent(relay(), GET)
        wire.protocol.readConnectionLost()
        edge.upstream.say(OK)
        self.assertTrue(wire.take().endswith(b"ok"))
        self.assertEqual(wire.ended, "closed")

    def test_half_closed_clients_get_every_answer_they_asked_for(self) -> None:
        edge, wire = sent(relay(), GET + GET + b"GET /half")
        wire.protocol.readConnectionLost()
        edge.upstream.say(OK)
        self.assertFalse(wire.over)
        edge.upstream.say(OK)
        self.assertEqual(wire.take(), OK + OK)
        self.assertEqual(wire.ended, "closed")

    def test_expect_is_answered_by_the_gateway_and_not_passed_on(self) -> None:
        edge = gateway()
        wire = edge.connect()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        wire.protocol.dataReceived(head)
        self.assertEqual(wire.take(), b"HTTP/1.1 100 Continue\r\n\r\n")
        wire.protocol.dataReceived(b"hello")
        [request] = edge.upstream.take_requests()
        self.assertEqual(request.body, b"hello")
        self.assertNotIn(b"expect", [name.lower() for name, _ in request.headers])


class LimitTests(SynchronousTestCase):
    @proves("gateway: 413 body_too_large")
    def test_a_declared_body_over_the_cap_is_not_read(self) -> None:
        for extra in (b"", b"Expect: 100-continue\r\n"):
            edge = gateway()
            reply, wire = edge.ask(
                b"POST /p HTTP/1.1\r\n" + H + extra + b"Content-Length: 131073\r\n\r\n"
            )
            self.assertEqual(status(reply), 413)
            self.assertIn(b"Connection: close", reply)
            self.assertIn(b'{"error":"body_too_large"}', reply)
            self.assertEqual(edge.upstream.wires, [])
            self.assertTrue(wire.half_closed)
            wire.protocol.dataReceived(b"x" * 70_000)
            run(edge.clock, 5)
            self.assertEqual(wire.ended, "cut")

    @proves("gateway: 413 body_too_large")
    def test_a_chunked_body_is_cut_at_the_cap(self) -> None:
        edge = gateway()
        wire = edge.connect()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
        wire.protocol.dataReceived(head + chunked(b"x" * 100_000))
        wire.protocol.dataReceived(chunked(b"x" * 40_000))
        self.assertEqual(status(wire.take()), 413)
        self.assertEqual(edge.upstream.wires[0].ended, "cut")
        self.assertFalse(any(request.complete for request in edge.upstream.take_requests()))

    @proves("gateway: 413 body_too_large", "limit: Gateway body")
    def test_a_body_of_exactly_the_cap_passes(self) -> None:
        edge = gateway()
        head = b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 131072\r\n\r\n"
        self.assertEqual(status(edge.ask(head + b"x" * 131_072)[0]), 200)

    @proves("gateway: 408, 431 request_timeout, headers_too_large")
    def test_heads_over_16_kib_are_431(self) -> None:
        for data in (b"GET /" + b"a" * 20_000, GET[:-2] + b"A: " + b"b" * 16_400 + b"\r\n\r\n"):
            reply, wire = gateway().ask(data)
            self.assertEqual(status(reply), 431)
            self.assertIn(b"headers_too_large", reply)
            self.assertTrue(wire.over)

    @proves("gateway: 405 method_not_allowed")
    def test_unknown_methods_are_405(self) -> None:
        for method in (b"TRACE", b"CONNECT", b"get", b"PROPFIND", b"X"):
            reply, _ = gateway().ask(method + b" /g HTTP/1.1\r\n" + H + b"\r\n")
            self.assertEqual(status(reply), 405)
            self.assertIn(b'{"error":"method_not_allowed"}', reply)

    def test_a_refused_body_does_not_become_the_next_request(self) -> None:
        edge = gateway()
        body = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        head = b"POST /svc/api/x HTTP/1.1\r\n" + H + b"Content-Length: %d\r\n\r\n" % len(body)
        reply, _ = edge.ask(head + body + GET)
        self.assertEqual(reply.count(b"403 Forbidden"), 1)
        self.assertEqual([request.target for request in edge.upstream.take_requests()], [b"/g"])


class UpstreamTests(SynchronousTestCase):
    @proves("relay: 502 upstream_unreachable", "gateway: 502, 504 bad_gateway, upstream_timeout")
    def test_an_upstream_that_is_down_is_502(self) -> None:
        for edge, code in ((gateway(), b"bad_gateway"), (relay(), b"upstream_unreachable")):
            edge.upstream.down = True
            reply, wire = edge.ask(GET)
            self.assertEqual(status(reply), 502)
            self.assertIn(b'{"error":"%b"}' % code, reply)
            self.assertFalse(wire.over)

    @proves("relay: 502 upstream_unreachable", "gateway: 502, 504 bad_gateway, upstream_timeout")
    def test_a_reset_before_the_answer_is_502(self) -> None:
        for edge, code in ((gateway(), b"bad_gateway"), (relay(), b"upstream_unreachable")):
            wire = edge.send(GET)
            edge.upstream.reset()  # the gateway sends the request once more
            reply = wire.take()
            self.assertEqual(status(reply), 502)
            self.assertIn(b'{"error":"%b"}' % code, reply)
            self.assertLessEqual(len(edge.upstream.wires), 2)

    @proves("gateway: 502, 504 bad_gateway, upstream_timeout")
    def test_a_reset_after_the_head_cuts_the_client_off(self) -> None:
        edge, wire = sent(gateway(), GET)
        edge.upstream.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        edge.upstream.wires[0].abortConnection()
        self.assertEqual(wire.ended, "cut")

    def test_connections_are_used_again(self) -> None:
        edge = gateway()
        for _ in range(3):
            edge.ask(GET)
        self.assertEqual(len(edge.upstream.wires), 1)

    def test_a_request_on_a_kept_connection_that_died_is_tried_again(self) -> None:
        for data in (GET, b"POST /p HTTP/1.1\r\n" + H + b"\r\n"):
            edge = gateway()
            edge.ask(GET)
            wire = edge.send(data)
            edge.upstream.wires[0].abortConnection()
            self.assertEqual(len(edge.upstream.wires), 2)
            edge.upstream.say(OK)
            self.assertEqual(status(wire.take()), 200)

    def test_kept_connections_are_not_kept_for_ever(self) -> None:
        edge = gateway()
        edge.ask(GET)
        edge.upstream.pool.sweep(29)
        self.assertFalse(edge.upstream.wires[0].ended)
        edge.upstream.pool.sweep(31)
        self.assertTrue(edge.upstream.wires[0].ended)

    def test_a_client_that_leaves_takes_its_upstream_with_it(self) -> None:
        edge, wire = sent(gateway(), GET)
        wire.abortConnection()
        self.assertEqual(edge.upstream.wires[0].ended, "cut")

    def test_a_connection_that_opens_after_the_client_left_is_cut(self) -> None:
        """On an unused connection the upstream sends 408, which a later request would receive."""
        edge, late = gateway(), Deferred[None]()
        pool = edge.upstream.pool
        connect = pool.connect
        pool.connect = lambda pool: late.addCallback(lambda _: connect(pool))
        wire = edge.send(GET)
        wire.abortConnection()
        late.callback(None)
        self.assertEqual([wire.ended for wire in edge.upstream.wires], ["cut"])

    def test_an_early_answer_ends_an_upload(self) -> None:
        edge, wire = sent(gateway(), b"POST /p HTTP/1.1\r\n" + H + b"Content-Length: 99\r\n\r\nx")
        edge.upstream.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        reply = wire.take()
        self.assertEqual(status(reply), 413)
        self.assertIn(b"Connection: close", reply)
        self.assertTrue(wire.half_closed)
        self.assertEqual(edge.upstream.wires[0].ended, "cut")
