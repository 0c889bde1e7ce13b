"""The chat connection: its upgrade, frames, limits and end."""

from __future__ import annotations

from functools import partial
from typing import Any

import txaio
from twisted.internet.address import IPv4Address
from twisted.internet.error import CannotListenError, ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.rehearsed import RehearsedBoard
from svcserver.chat import session, stanza
from svcserver.chat.adapter import (
    BACKLOG,
    CUT_S,
    IDLE_S,
    OVER_RATE_S,
    PORTION,
    SHARE_S,
    ChatFactory,
)
from svcserver.chat.rates import STANZAS
from svcserver.chat.service import ChatService, chat_service
from svcserver.chat.settings import ChatSettings
from svcserver.chat.stanza import text_frame
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.secrets import Secret
from tests.chat.fixture import ChatFixture
from tests.chat.sockets import masked, split, upgrade
from tests.support.proves import proves

OPEN = f'<open xmlns="{stanza.FRAMING}" to="h:1" version="1.0"/>'.encode()


class Socket(StringTransport):
    """A fake transport with a buffer and with the options of a TCP transport."""

    def __init__(self, peer: str = "127.0.0.1") -> None:
        super().__init__(peerAddress=IPv4Address("TCP", peer, 5))
        self.dataBuffer, self.offset, self._tempDataLen = b"", 0, 0
        self.no_delay = self.aborted = False

    def setTcpNoDelay(self, on: bool) -> None:
        self.no_delay = on

    def unregisterProducer(self) -> None:
        """Do nothing: a TCP transport allows this call without a producer."""

    def abortConnection(self) -> None:
        self.aborted = self.disconnecting = True


class AdapterCase(SynchronousTestCase):
    """A chat server whose connections are in memory."""

    def setUp(self) -> None:
        self.patch(txaio.config, "loop", None)
        self.start(ChatSettings())

    def start(self, settings: ChatSettings) -> None:
        self.fixture = ChatFixture(settings)
        self.clock: Clock = self.fixture.clock
        self.factory = ChatFactory(self.fixture.server, self.clock)

    def connect(self, more: str = "", *, request: bytes | None = None) -> Any:
        connection = self.factory.buildProtocol(None)
        connection.makeConnection(Socket())
        connection.dataReceived(upgrade(more) if request is None else request)
        return connection

    def take_frames(self, connection: Any) -> list[tuple[int, bytes]]:
        self.clock.advance(0)  # frames are written at the end of a turn
        data = connection.transport.value()
        connection.transport.clear()
        return split(data.partition(b"\r\n\r\n")[2] if data.startswith(b"HTTP") else data)[0]


class AdapterTests(AdapterCase):
    @proves("chat: WebSocket: target //, protocol xmpp, one stanza per message")
    def test_an_upgrade_echoes_the_subprotocol_and_turns_nagle_off(self) -> None:
        client = self.connect()
        head = client.transport.value()
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "))
        self.assertIn(b"Sec-WebSocket-Protocol: xmpp", head)
        self.assertNotIn(b"Extensions", head)
        self.assertTrue(client.transport.no_delay)
        for sent in (head, self.connect().transport.value()):
            self.assertIn(b"\r\nServer: AutobahnPython/", sent, "nothing of ours in its place")

    def test_an_upgrade_without_the_subprotocol_is_accepted(self) -> None:
        request = upgrade().replace(b"Sec-WebSocket-Protocol: xmpp\r\n", b"")
        client = self.connect(request=request)
        self.assertIn(b" 101 ", client.transport.value())
        self.assertNotIn(b"Protocol: xmpp", client.transport.value())

    @proves("chat: WebSocket: target //, protocol xmpp, one stanza per message")
    def test_plain_http_is_404_and_nothing_of_the_request_is_quoted(self) -> None:
        for request in (
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"<b>me</b> / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost: h\r\n\r\n",
        ):
            transport = self.connect(request=request).transport
            self.assertEqual(
                transport.value(),
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            )
            self.assertTrue(transport.disconnecting)
        for bad in (b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nHost: h:<me>\r\n\r\n"):
            head = self.connect(request=bad).transport.value()
            self.assertTrue(head.startswith(b"HTTP/1.1 400 Bad Request\r\n"), head)
            self.assertNotIn(b"me", head)

    def test_faults_of_strangers_are_counted_and_not_logged(self) -> None:
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)
        self.connect(request=b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")  # as svcctl doctor sends it
        for bad in (b"GET /\r\n\r\n", upgrade().replace(b": 13", b": 99")):
            self.connect(request=bad)
        self.connect().dataReceived(b"\xff\xff\xff\xff")  # these bytes are no frame
        self.connect().dataReceived(masked(b"x" * 70_000))
        self.connect(request=b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)
        self.connect(request=b"GET")
        self.clock.pump([1.0] * 15)
        loud = [line for line in lines if line["log_level"].name not in ("debug", "info")]
        self.assertEqual(loud, [])
        self.assertEqual([event for event in lines if "autobahn" in event["log_namespace"]], [])
        refused = self.fixture.server.counters.by_reason(Counted.REFUSALS)
        self.assertEqual(refused, {"chat_handshake": 2})

    def test_a_defect_at_an_upgrade_is_logged_and_costs_one_connection(self) -> None:
        self.patch(type(self.fixture.server), "may_connect", lambda *_: 1 / 0)
        self.assertIn(b" 503 ", self.connect().transport.value())
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    @proves("limit: Chat")
    def test_the_time_to_log_in_counts_from_the_first_byte_on(self) -> None:
        client = self.connect(request=upgrade("")[:-2])
        self.clock.advance(9)
        client.dataReceived(b"\r\n")
        self.assertEqual(client.session.since, 0)
        self.clock.advance(6)
        self.fixture.server.tick()
        self.assertEqual(client.session.why_ended, "timeout")

    def test_an_endless_request_is_cut(self) -> None:
        client = self.connect(request=b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)
        self.assertTrue(client.transport.aborted)
        slow = self.connect(request=b"GET / HTTP/1.1\r\n")
        for _ in range(20):
            slow.dataReceived(b"x" * 1_000)
            self.clock.advance(0)
            self.clock.advance(0)
        self.assertTrue(slow.transport.aborted)

    def test_a_silent_connection_is_cut(self) -> None:
        client = self.connect(request=b"GET")
        for _ in range(15):
            self.clock.advance(1)
        self.assertTrue(client.transport.disconnecting)

    @proves("chat: WebSocket: target //, protocol xmpp, one stanza per message")
    def test_one_message_is_one_stanza_text_or_binary_or_in_pieces(self) -> None:
        client = self.connect()
        client.transport.clear()
        for data in (masked(OPEN), masked(OPEN, 2)):
            client.dataReceived(data)
            self.assertEqual(len(self.take_frames(client)), 2)
        for byte in masked(OPEN):
            client.dataReceived(bytes([byte]))
        self.assertEqual([opcode for opcode, _ in self.take_frames(client)], [1, 1])

    def test_a_frame_over_64_kib_is_closed_with_1009_size(self) -> None:
        client = self.connect()
        client.transport.clear()
        client.dataReceived(masked(b"x" * 65_537)[:40])
        self.assertEqual(self.take_frames(client), [(8, b"\x03\xf1size")])
        self.assertEqual(client.session.why_ended, "size")
        self.clock.advance(1.5)
        self.assertTrue(client.transport.disconnecting)

    def test_endless_empty_fragments_end_the_session_with_size(self) -> None:
        client = self.connect()
        client.dataReceived(masked(b"", 1).replace(b"\x81", b"\x01", 1))
        for _ in range(63):
            client.dataReceived(masked(b"", 0).replace(b"\x80", b"\x00", 1))
        self.assertEqual(client.session.why_ended, "")
        client.dataReceived(masked(b"", 0).replace(b"\x80", b"\x00", 1))
        self.assertEqual(client.session.why_ended, "size")
        client.dataReceived(masked(b"x" * 60_000, 0))
        for _ in range(200):
            self.clock.advance(0)
        self.assertLess(len(b"".join(client.message_data or [])), 60_000)

    def test_invalid_frames_end_the_connection(self) -> None:
        for bad in (masked(b"\xff\xfe"), masked(b"\xff", 2), masked(b"x", 3), b"\x81\x01x"):
            client = self.connect()
            client.dataReceived(bad)
            self.assertTrue(client.transport.disconnecting, bad)

    def test_too_many_sockets_are_503(self) -> None:
        self.start(ChatSettings(max_connections=1))
        self.connect()
        self.assertIn(b" 503 ", self.connect().transport.value())

    def test_addresses_count_only_with_the_gateways_secret(self) -> None:
        self.start(ChatSettings(gateway_secret=Secret("s" * 32)))
        good = f"X-Svc-Gateway: {'s' * 32}\r\nX-Forwarded-For: 9.9.9.9, 203.0.113.9\r\n"
        self.assertEqual(self.connect(good).session.address, "203.0.113.9")
        for bad in (good.replace("ss", "xx"), good.replace("203.0.113.9", "x"), ""):
            self.assertEqual(self.connect(bad).session.address, "")
        for _ in range(7):
            self.assertIn(b" 101 ", self.connect(good).transport.value())
        self.assertIn(b" 503 ", self.connect(good).transport.value())

    @proves("chat: 256 KiB backlog", "limit: Chat")
    def test_a_reader_with_256_kib_waiting_gets_nothing_more_and_is_cut(self) -> None:
        client = self.connect()
        client.transport.clear()
        client.transport.dataBuffer = b"x" * (BACKLOG + 1)
        client.send(text_frame("<a/>"))
        client.dataReceived(masked(b"", 9))  # a ping adds nothing either
        self.assertEqual(client.transport.value(), b"")
        self.clock.advance(0)
        self.assertEqual(client.session.why_ended, "backlog")
        self.assertTrue(client.transport.aborted)

    def test_all_buffers_of_the_transport_count_as_unsent(self) -> None:
        self.assertEqual(BACKLOG, 262_144)
        for held, sent, fresh, taken in (
            (BACKLOG, 0, 0, True),
            (BACKLOG, 0, 1, False),
            (BACKLOG + 9, 9, 0, True),
            (9, 9, BACKLOG + 1, False),
        ):
            client = self.connect()
            client.transport.clear()
            client.transport.dataBuffer, client.transport.offset = b"x" * held, sent
            client.transport._tempDataLen = fresh
            client.send(text_frame("<a/>"))
            self.clock.advance(0)
            self.assertEqual(bool(client.transport.value()), taken, (held, sent, fresh))

    def test_the_first_buffer_is_limited_without_the_private_attribute(self) -> None:
        for held, taken in ((BACKLOG, True), (BACKLOG + 1, False)):
            client = self.connect()
            client.transport.clear()
            client.transport.dataBuffer = b"x" * held
            del client.transport._tempDataLen
            client.send(text_frame("<a/>"))
            self.clock.advance(0)
            self.assertEqual(bool(client.transport.value()), taken, held)

    def test_a_large_input_is_handled_in_portions(self) -> None:
        client, pings = self.connect(), PORTION // 16
        client.transport.clear()
        client.dataReceived(masked(b"x" * 18, 9) * pings)
        counts: list[int] = []
        while len(counts) < 9 and client.transport.producerState == "paused":
            counts.append(len(self.take_frames(client)))
            self.clock.advance(0)
        counts.append(len(self.take_frames(client)))
        self.assertEqual((client.transport.producerState, sum(counts)), ("producing", pings))
        self.assertEqual(len(counts), 2)

    def test_a_client_over_its_stanza_rate_waits_after_each_portion(self) -> None:
        client = self.connect()
        client.dataReceived(masked(b"", 9) * (int(STANZAS.burst) + 1))
        self.assertEqual(client.transport.producerState, "paused")
        self.clock.advance(OVER_RATE_S / 2)
        self.assertEqual(client.transport.producerState, "paused")
        self.clock.advance(OVER_RATE_S / 2)
        self.assertEqual(client.transport.producerState, "producing")
        self.clock.advance(1)
        client.dataReceived(masked(b"", 9))
        self.assertEqual(client.transport.producerState, "producing")

    def test_input_of_a_closed_connection_is_ignored(self) -> None:
        client = self.connect()
        client.dataReceived(masked(b"<a") + masked(OPEN) * PORTION)
        [cut] = self.clock.getDelayedCalls()
        self.assertEqual((client.session.why_ended, cut.getTime()), ("refused", CUT_S))
        cut.cancel()
        gone = self.connect()
        gone.dataReceived(masked(b"", 9) * PORTION)
        gone.connectionLost(Failure(ConnectionDone()))
        self.clock.advance(0)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_chat_beyond_its_share_of_a_turn_waits_in_order(self) -> None:
        share, done = self.factory.share, list[int]()

        def work(number: int) -> None:
            self.clock.rightNow += SHARE_S / 2  # seconds that the work takes
            done.append(number)

        for number in range(6):
            share.run(partial(work, number))
        counts = [len(done)]
        while self.clock.getDelayedCalls():
            self.clock.advance(0)
            counts.append(len(done))
        self.assertEqual((counts, done), ([3, 6], list(range(6))))

    def test_work_behind_very_long_work_waits_for_the_next_turn(self) -> None:
        share, done = self.factory.share, list[float]()

        def work() -> None:
            self.clock.rightNow += 2 * IDLE_S
            done.append(self.clock.seconds())

        for _ in range(3):
            share.run(work)
        self.assertEqual(len(done), 1)
        self.clock.advance(0)
        self.assertEqual(len(done), 3)

    def test_failed_work_does_not_stop_the_work_behind_it(self) -> None:
        share, done = self.factory.share, list[int]()
        share.later(lambda: self.fail("planned"))
        share.later(partial(done.append, 1))
        self.assertRaises(self.failureException, self.clock.advance, 0)
        self.clock.advance(0)
        self.assertEqual(done, [1])

    def test_a_websocket_ping_is_answered(self) -> None:
        client = self.connect()
        client.transport.clear()
        client.dataReceived(masked(b"hi", 9))
        self.assertEqual(self.take_frames(client), [(10, b"hi")])

    @proves("chat: close")
    def test_close_is_followed_by_code_1000_and_the_disconnect(self) -> None:
        client = self.connect()
        client.transport.clear()
        client.dataReceived(masked(stanza.serialize(stanza.CLOSE).encode()))
        self.assertEqual(
            self.take_frames(client),
            [(1, stanza.serialize(stanza.CLOSE).encode()), (8, b"\x03\xe8close")],
        )
        self.clock.advance(1.5)
        self.assertTrue(client.transport.disconnecting)

    @proves("chat: close")
    def test_a_closing_handshake_has_its_whole_second_whenever_it_begins(self) -> None:
        # fractions of a second; autobahn's timers count whole seconds
        for passed in (0.0, 0.3, 0.69):
            self.clock.advance(passed)
            client = self.connect()
            client.dataReceived(masked(stanza.serialize(stanza.CLOSE).encode()))
            self.clock.advance(CUT_S - 0.02)
            self.assertFalse(client.transport.disconnecting, self.clock.seconds())
            self.clock.advance(0.04)
            self.assertTrue(client.transport.aborted, self.clock.seconds())

    def test_a_lost_connection_leaves_nothing_behind(self) -> None:
        client = self.connect()
        client.dataReceived(masked(stanza.serialize(stanza.CLOSE).encode()))
        client.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((len(self.fixture.server), self.factory.connections), (0, {}))
        self.clock.advance(2)  # the closing handshake's
        two = self.connect()
        two.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((two.session.why_ended, len(self.fixture.server)), ("socket", 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_defect_costs_one_connection_and_is_logged(self) -> None:
        client = self.connect()

        def broken(_: str) -> None:
            raise ZeroDivisionError

        self.patch(session, "parse", broken)
        client.dataReceived(masked(OPEN))
        self.assertEqual(client.session.why_ended, "refused")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class ServiceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(txaio.config, "loop", None)
        self.reactor = MemoryReactorClock()

    def chat(self) -> ChatService:
        board, fixture = RehearsedBoard(lambda: 0.0), ChatFixture()
        return chat_service(
            ChatSettings(), fixture.game, board, self.reactor, lambda: 0.0, Counters()
        )

    def test_the_service_listens_ticks_and_closes_sessions(self) -> None:
        service = self.chat()
        service.startService()
        (port, factory, _, host) = self.reactor.tcpServers[0]
        self.assertEqual((port, host), (61099, "127.0.0.1"))
        connection = factory.buildProtocol(None)
        connection.makeConnection(Socket())
        connection.dataReceived(upgrade())
        connection.transport.clear()
        stopped = service.stopService()
        self.assertIn(stanza.serialize(stanza.CLOSE).encode(), connection.transport.value())
        self.assertNoResult(stopped)
        self.reactor.pump([0.1] * 12)
        self.assertTrue(connection.transport.disconnecting)
        self.successResultOf(stopped)

    def test_a_round_of_the_timers_that_fails_does_not_end_them(self) -> None:
        service = self.chat()
        service.startService()
        rounds: list[float] = []

        def tick() -> None:
            rounds.append(self.reactor.seconds())
            if len(rounds) == 1:
                raise ZeroDivisionError

        self.patch(type(service.server), "tick", lambda _: tick())
        self.reactor.pump([1.0] * 3)
        self.assertEqual(rounds, [1, 2, 3])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        stopped = service.stopService()
        self.reactor.pump([0.1] * 12)
        self.successResultOf(stopped)
        self.assertEqual(len(rounds), 3)

    def test_a_taken_port_is_an_error_line_and_no_failure(self) -> None:
        def taken(*_: object, **__: object) -> None:
            raise CannotListenError("127.0.0.1", 61099, OSError("in use"))

        self.patch(self.reactor, "listenTCP", taken)
        service = self.chat()
        lines: list[str] = []

        def observe(event: dict[str, Any]) -> None:
            lines.append(str(formatEvent(event)))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        service.startService()
        self.assertIn("the chat did not start: CHAT_PORT 127.0.0.1:61099", "".join(lines))
        self.successResultOf(service.stopService())
