"""The HTTP channel without a socket: limits, early rejection, slow and broken peers."""

from random import Random
from unittest import mock

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.http import connection
from svcserver.http.connection import LINGER_S, SWEEP_S
from svcserver.http.heads import find_end
from svcserver.web.channel import HALF_CLOSED_S, IDLE_S, PROMPT, RECEIVE_S, YOUNG_S
from svcserver.web.request import HttpRequest
from svcserver.web.response import response_head
from svcserver.web.routes import Answer
from svcserver.web.site import HttpFactory
from tests.edge.wires import Wire
from tests.support.game import Game
from tests.support.proves import proves

GET = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"


class ChannelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")
        self.reactor = MemoryReactorClock()
        self.factory = HttpFactory(self.game.door, self.reactor)
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

    def test_two_requests_on_one_connection_are_both_answered(self) -> None:
        for _ in range(2):
            reply = self.send(b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(reply.startswith(b"HTTP/1.1 200 OK\r\n"))
            self.assertIn(b"Content-Length: ", reply)
        self.assertNotIn(b"Twisted", reply)

    def test_one_empty_line_after_a_body_is_ignored_a_second_is_not(self) -> None:
        for pause in (0, 1, 2):  # the bytes in one piece, or cut before or within the line
            self.setUp()
            for _ in range(3):
                sent = POST + b"\r\n"
                reply = self.send(
                    *filter(None, (sent[: len(POST) + pause], sent[len(POST) + pause :]))
                )
                self.assertEqual((reply.count(b"HTTP/1.1 "), self.wire.over), (1, False))
            reply = self.send(b"\r", b"\n")
            self.assertTrue(reply.startswith(b"HTTP/1.1 400 "))
            self.assertTrue(self.wire.over)

    def test_an_empty_line_neither_shortens_nor_lengthens_a_rest(self) -> None:
        for line in ((b"\r\n",), (b"\r", b"\n"), (b"\r",)):
            self.setUp()
            self.send(POST)
            self.reactor.advance(IDLE_S - 2)
            self.assertEqual(self.send(*line), b"")
            self.assertEqual(self.wire.ended, "")
            self.reactor.advance(2 + SWEEP_S)
            self.assertEqual((self.wire.value(), self.wire.ended), (b"", "closed"))

    @proves("convention 3: bodies and their limits", "limit: JSON body, form body")
    def test_a_declared_50_mb_is_the_limit_and_refused_before_it_is_sent(self) -> None:
        reply = self.send(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 52428801\r\n\r\n")
        self.assertTrue(reply.startswith(b"HTTP/1.1 413 "))
        self.reactor.advance(LINGER_S)
        self.assertEqual(self.wire.ended, "cut")

    def test_a_refusal_of_a_body_that_head_announced_has_none_itself(self) -> None:
        reply = self.send(
            b"HEAD /character HTTP/1.1\r\nHost: x\r\nContent-Length: 52428801\r\n\r\n"
        )
        self.assertTrue(reply.startswith(b"HTTP/1.1 413 "))
        self.assertTrue(reply.endswith(b"\r\n\r\n"))

    @proves("convention 3: bodies and their limits", "limit: JSON body, form body")
    def test_a_refused_client_that_keeps_sending_is_not_reset(self) -> None:
        self.send(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 53477376\r\n\r\n")
        for _ in range(51):
            self.channel.dataReceived(b"x" * 1024 * 1024)
        self.assertNotEqual(self.wire.ended, "cut", "a client that is still sending reads later")
        for _ in range(51):
            self.channel.dataReceived(b"x" * 1024 * 1024)
        self.assertEqual(self.wire.ended, "cut")

    @proves("convention 3: bodies and their limits", "limit: JSON body, form body")
    def test_a_chunked_body_is_counted(self) -> None:
        self.game.door.max_json = 1000
        head = b"POST /event HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        reply = self.send(head, *[b"100\r\n" + b"x" * 256 + b"\r\n"] * 4)
        self.assertTrue(reply.startswith(b"HTTP/1.1 413 "))

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
        reply = self.send(head + b"Content-Length: %d\r\n\r\n" % len(body), body)
        self.assertTrue(reply.startswith(b"HTTP/1.1 404 "))

    def test_header_floods_end_the_connection(self) -> None:
        for flood in (
            b"X: y\r\n" * 600,
            b"X: " + b"y" * 15_000 + b"\r\nZ: " + b"y" * 2_000 + b"\r\n",
        ):
            self.setUp()
            reply = self.send(b"GET /svc-status HTTP/1.1\r\nHost: x\r\n" + flood + b"\r\n")
            self.assertTrue(reply.startswith(b"HTTP/1.1 431 "), reply[:40])
            self.assertTrue(self.wire.over)

    def test_a_head_that_comes_byte_by_byte_is_searched_once(self) -> None:
        head = b"GET /svc-status HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 2_000 + b"\r\n\r\n"
        values: list[int] = []

        def find(buffer: bytes, limit: int, searched: int) -> int:
            values.append(len(buffer) - searched)
            return find_end(buffer, limit, searched)

        self.patch(connection, "find_end", find)
        for _ in range(2):  # also for the second request of a kept connection
            values.clear()
            reply = self.send(*[head[at : at + 1] for at in range(len(head))])
            self.assertTrue(reply.startswith(b"HTTP/1.1 200 "))
            self.assertEqual(values, [1] * len(head))
        reply = self.send(head[:40], head[40:] + head[:40], head[40:] + head)
        self.assertEqual(reply.count(b"HTTP/1.1 200 "), 3)

    def test_garbage_is_400_and_never_a_traceback(self) -> None:
        for garbage in (
            b"\x16\x03\x01\x02\x00\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/1.1\r\n: x\r\n\r\n",
        ):
            self.setUp()
            reply = self.send(garbage)
            self.assertTrue(reply == b"" or reply.startswith(b"HTTP/1.1 400 "), reply)

    def test_one_byte_a_minute_does_not_keep_a_connection(self) -> None:
        self.send(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        for _ in range(int(RECEIVE_S + SWEEP_S) // 5 + 1):
            if not self.wire.ended:
                self.channel.dataReceived(b"x")
            self.reactor.advance(5)
        self.assertEqual(self.wire.ended, "cut")
        self.assertEqual(self.factory.channels, {})

    def test_a_half_closed_request_leaves_nothing_behind(self) -> None:
        self.send(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        self.wire.abortConnection()
        self.assertEqual(self.factory.channels, {})

    def test_stop_closes_idle_and_counts_busy_connections(self) -> None:
        self.assertEqual(self.factory.close_idle(keep_used=False), 0)
        self.assertTrue(self.wire.disconnecting)

    def test_an_unused_connection_is_closed_unless_it_is_new(self) -> None:
        self.factory.close_unused()
        self.assertFalse(self.wire.disconnecting)
        self.reactor.advance(YOUNG_S)
        self.factory.close_unused()
        self.assertTrue(self.wire.disconnecting)

    def test_a_kept_connection_is_answered_once_more_with_a_close(self) -> None:
        request = b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n"
        self.send(request)
        self.reactor.advance(YOUNG_S)
        self.factory.close_unused()
        self.factory.stopping = True
        self.assertEqual(self.factory.close_idle(keep_used=True), 1)
        self.assertFalse(self.wire.disconnecting)
        self.wire.clear()
        self.send(request)
        self.assertIn(b"Connection: close\r\n", self.wire.value())
        self.assertTrue(self.wire.disconnecting)

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        request = b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n"
        two = b"HEAD /no/such HTTP/1.1\r\nHost: x\r\n\r\n"
        reply = self.send((request + two) * 20)
        self.reactor.advance(0)  # after some requests in a row, other connections get a turn
        self.reactor.advance(0)
        reply = self.wire.value()
        codes = [line[9:12] for line in reply.split(b"\r\n") if b"HTTP/1.1 " in line]
        self.assertEqual(len(codes), 40)
        self.assertNotIn(b"HTTP/1.1 404 Not Found\r\nContent-Type", reply)

    def test_a_pipelined_flood_waits_outside_and_goes_on(self) -> None:
        request, count = b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n", 2_000
        self.send(request * count, request * count)
        self.assertTrue(self.wire.paused)
        for _ in range(2 * count):
            self.reactor.advance(0)
        self.assertFalse(self.wire.paused)
        self.assertEqual(self.wire.value().count(b"HTTP/1.1 200 OK"), 2 * count)

    def test_a_request_may_come_byte_by_byte(self) -> None:
        body = b"5\r\n{}   \r\n0\r\n\r\n"
        head = b"POST /heartbeat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        sent = head + self.auth() + b"\r\n" + body
        reply = self.send(*[sent[at : at + 1] for at in range(len(sent))])
        self.assertTrue(reply.startswith(b"HTTP/1.1 200 "), reply)

    def test_a_client_that_waits_for_100_gets_it_once(self) -> None:
        head = (
            b"POST /heartbeat HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        )
        reply = self.send(head + self.auth() + b"\r\n")
        self.assertEqual(reply, b"HTTP/1.1 100 Continue\r\n\r\n")
        self.assertTrue(self.send(b"{}").startswith(b"HTTP/1.1 200 "))

    def test_a_refused_body_is_not_asked_for_with_100(self) -> None:
        head = b"POST /character HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        reply = self.send(head + b"Content-Length: 9000000\r\n\r\n")
        self.assertTrue(reply.startswith(b"HTTP/1.1 401 "))
        self.assertIn(b"Connection: close\r\n", reply)

    def test_head_has_the_length_and_no_body(self) -> None:
        get = self.send(b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n")
        head = self.send(b"HEAD /svc-status HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(head, get.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")

    def test_a_health_check_may_use_http_1_0_or_a_whole_url(self) -> None:
        for head in (
            b"GET /svc-status HTTP/1.0\r\n\r\n",
            b"GET http://127.0.0.1:61000/svc-status HTTP/1.1\r\nHost: 127.0.0.1:61000\r\n\r\n",
            b"GET HTTP://x/svc-status?a=b HTTP/1.1\r\nHost: y\r\n\r\n",
            b"HEAD /svc-status HTTP/1.0\r\nConnection: close\r\n\r\n",
        ):
            self.setUp()
            self.assertTrue(self.send(head).startswith(b"HTTP/1.1 200 "), head)

    def test_http_1_1_needs_a_host_and_a_target_needs_a_path(self) -> None:
        for head in (
            b"GET /svc-status HTTP/1.1\r\n\r\n",
            b"GET /svc-status HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
            b"GET http:///svc-status HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET http://a@b/svc-status HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET ftp://x/svc-status HTTP/1.1\r\nHost: x\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET svc-status HTTP/1.0\r\n\r\n",
        ):
            self.setUp()
            self.assertTrue(self.send(head).startswith(b"HTTP/1.1 400 "), head)
            self.assertTrue(self.wire.over)

    def test_http_1_0_and_close_end_the_connection_after_the_answer(self) -> None:
        for start in (b"HTTP/1.0\r\nHost: x\r\n", b"HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"):
            self.setUp()
            reply = self.send(b"GET /svc-status " + start + b"\r\n")
            self.assertIn(b"\r\nConnection: close\r\n", reply)
            self.assertEqual(self.wire.ended, "closed")

    def test_an_idle_connection_is_closed(self) -> None:
        self.send(b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range((IDLE_S + SWEEP_S) // SWEEP_S):
            self.reactor.advance(SWEEP_S)
        self.assertEqual(self.wire.ended, "closed")

    def test_a_client_that_never_reads_gets_no_more_and_is_cut(self) -> None:
        request = b"GET /svc-status HTTP/1.1\r\nHost: x\r\n\r\n"
        self.send(request)
        self.wire.producer.pauseProducing()
        self.assertEqual(self.send(request), b"")
        self.wire.producer.resumeProducing()
        self.reactor.advance(0)
        self.assertTrue(self.wire.value().startswith(b"HTTP/1.1 200 "))
        self.wire.producer.pauseProducing()
        self.send(request * 2000)
        self.assertTrue(self.wire.paused)
        for _ in range((RECEIVE_S + SWEEP_S) // SWEEP_S):
            self.reactor.advance(SWEEP_S)
        self.assertEqual(self.wire.ended, "cut")


@define
class Slow:
    """A handler that answers when the test allows it."""

    max_json: int = 100
    work: list[Deferred[Answer]] = field(factory=list)
    bodies: list[bytes] = field(factory=list)
    cancelled: int = 0
    looks: int = 0

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        self.looks += 1
        return None

    def page(self, status: int, why: BaseException | None) -> Answer:
        return Answer(status)

    def answer(self, request: HttpRequest) -> Deferred[Answer]:
        self.work.append(Deferred(self._gone))
        self.bodies.append(request.body)
        return self.work[-1]

    def _gone(self, work: Deferred[Answer]) -> None:
        self.cancelled += 1


class WaitingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.front, self.reactor = Slow(), MemoryReactorClock()
        self.factory = HttpFactory(self.front, self.reactor)
        self.factory.startFactory()
        self.channel = self.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        self.wire = Wire(self.channel)
        self.channel.makeConnection(self.wire)
        self.channel.dataReceived(GET)

    def say(self, answer: Answer) -> bytes:
        self.front.work[-1].callback(answer)
        return self.wire.take()

    def test_the_next_request_waits_for_its_turn(self) -> None:
        self.channel.dataReceived(GET)
        self.assertEqual((len(self.front.work), self.wire.value()), (1, b""))
        self.say(Answer(204))
        self.assertEqual(len(self.front.work), 2)

    def test_a_large_answer_to_an_upload_holds_back_the_next_request(self) -> None:
        self.say(Answer(204))
        self.channel.dataReceived(POST[:-1])
        with mock.patch.object(Slow, "answer", lambda *_: Answer(200, b"x" * (PROMPT + 1))):
            self.wire.producer.pauseProducing()
            self.channel.dataReceived(POST[-1:] + GET)
        self.channel.readConnectionLost()
        self.assertEqual((len(self.front.work), self.wire.ended), (1, ""))
        self.wire.producer.resumeProducing()
        self.assertIn(b"x" * (PROMPT + 1), self.wire.take())
        self.assertEqual(len(self.front.work), 2)

    def test_a_body_that_comes_with_its_head_is_judged_once(self) -> None:
        self.say(Answer(204))
        self.channel.dataReceived(POST + GET)
        self.assertEqual((self.front.bodies[-1], self.front.looks), (b"abc", 0))
        self.assertEqual(self.factory.held, 3)
        self.say(Answer(204))
        self.assertEqual((self.front.bodies, self.factory.held), ([b"", b"abc", b""], 0))
        self.say(Answer(204))
        self.channel.dataReceived(POST[:-1])
        self.assertEqual((len(self.front.bodies), self.front.looks), (3, 1))
        self.channel.dataReceived(POST[-1:])
        self.assertEqual(self.front.bodies[-1], b"abc")

    def test_a_body_beyond_the_limit_is_refused_though_it_is_all_here(self) -> None:
        self.say(Answer(204))
        self.front.max_json = 2
        self.channel.dataReceived(POST)
        self.assertTrue(self.wire.take().startswith(b"HTTP/1.1 413 "))
        self.assertEqual(len(self.front.bodies), 1)

    def test_work_for_a_client_that_has_gone_is_cancelled(self) -> None:
        self.wire.abortConnection()
        self.assertEqual((self.front.cancelled, self.factory.channels), (1, {}))

    def test_a_client_that_only_stops_sending_gets_its_answer(self) -> None:
        self.channel.readConnectionLost()
        self.assertTrue(self.say(Answer(200, b"x")).startswith(b"HTTP/1.1 200 "))
        self.assertEqual(self.wire.ended, "closed")
        self.factory.stopFactory()
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_long_work_for_a_half_closed_client_is_cancelled(self) -> None:
        self.channel.readConnectionLost()
        self.reactor.advance(HALF_CLOSED_S)
        self.assertEqual((self.front.cancelled, self.wire.ended), (1, "cut"))

    def test_a_flood_of_requests_behind_a_slow_request_is_not_kept(self) -> None:
        self.channel.dataReceived(GET * 3000)
        self.assertTrue(self.wire.paused)
        for _ in range(1_000):
            self.say(Answer(204))
        self.assertFalse(self.wire.paused)

    def test_an_answer_that_is_no_json_is_a_500(self) -> None:
        self.assertTrue(self.say(Answer(200, object())).startswith(b"HTTP/1.1 500 "))
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def test_no_header_can_be_split(self) -> None:
        for bad in ("a\r\nX: y", "a\nX: y", "a\r"):
            with self.assertRaises(ValueError):
                response_head(Answer(200, None, {"ETag": bad}), b"", b"", close=False)

    def test_a_stopping_service_waits_only_for_answers(self) -> None:
        self.assertEqual(self.factory.close_idle(keep_used=False), 1)
        self.say(Answer(204))
        self.assertEqual(self.factory.close_idle(keep_used=False), 0)
        self.assertEqual(self.wire.ended, "closed")

    def test_a_stopping_service_does_not_wait_for_hopeless_requests(self) -> None:
        game = Game(self, AUTH_MODE="")
        factory = HttpFactory(game.door, self.reactor)
        channel = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        wire = Wire(channel)
        channel.makeConnection(wire)
        channel.dataReceived(b"POST /account/api/oauth/token HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual((wire.value(), wire.ended), (b"", ""))
        self.assertEqual(factory.close_idle(keep_used=False), 0)
        self.assertEqual(wire.ended, "closed")

    @given(st.lists(st.sampled_from([GET, POST, b"\r\n", b"x", b"GET "]), max_size=8), st.randoms())
    @settings(max_examples=60, deadline=None)
    def test_any_bytes_in_any_pieces_are_handled_without_an_error(
        self, parts: list[bytes], rng: Random
    ) -> None:
        front = Slow()
        channel = HttpFactory(front, self.reactor).buildProtocol(None)
        wire = Wire(channel)
        channel.makeConnection(wire)
        data = b"".join(parts)
        while data and not wire.over:
            cut = rng.randint(1, len(data))
            channel.dataReceived(data[:cut])
            data = data[cut:]
            while front.work and not front.work[-1].called:
                front.work[-1].callback(Answer(200, [1]))
        self.assertEqual(wire.value().count(b"HTTP/1.1 200 "), len(front.work))
        wire.abortConnection()
