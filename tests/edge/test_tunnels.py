"""Upgraded connections, from the upgrade request to the end of the tunnel."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.policy import Route
from tests.edge.wires import GET, Edge, H, Wire, gateway, relay, run, status
from tests.support.proves import proves

SOCKET = (
    b"GET // HTTP/1.1\r\n" + H + b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n"
    b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n"
)


SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: y\r\n\r\n"
)


class TunnelTests(SynchronousTestCase):
    def open(self, edge: Edge) -> tuple[Wire, Wire]:
        client = edge.send(SOCKET)
        chat = edge.upstreams[Route.WS]
        self.reply = chat.wires[-1].take()
        chat.say(SWITCHED + b"hello")
        return client, chat.wires[-1]

    @proves("gateway: GET with Upgrade: websocket", "relay: WebSocket upgrades")
    def test_bytes_flow_both_ways_untouched(self) -> None:
        for edge in (gateway(), relay()):
            client, chat = self.open(edge)
            self.assertTrue(self.reply.startswith(b"GET // HTTP/1.1\r\n"))
            self.assertIn(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", self.reply)
            reply = client.take()
            self.assertTrue(reply.startswith(b"HTTP/1.1 101 Switching Protocols\r\n"))
            self.assertIn(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", reply)
            self.assertTrue(reply.endswith(b"\r\n\r\nhello"))
            client.protocol.dataReceived(b"\x81\x00GET / HTTP/1.1\r\n\r\n")
            self.assertEqual(chat.take(), b"\x81\x00GET / HTTP/1.1\r\n\r\n")

    def test_bytes_of_the_client_wait_until_the_upgrade_is_granted(self) -> None:
        edge = gateway()
        edge.send(SOCKET + b"early")
        chat = edge.upstreams[Route.WS]
        self.assertNotIn(b"early", chat.wires[0].take())
        chat.say(SWITCHED)
        self.assertEqual(chat.wires[0].take(), b"early")

    @proves("relay: WebSocket upgrades")
    def test_a_refused_upgrade_is_passed_on_and_the_connection_ends(self) -> None:
        for edge in (gateway(), relay()):
            client = edge.send(SOCKET + GET)
            edge.upstreams[Route.WS].say(
                b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno"
            )
            self.assertEqual(status(client.take()), 426)
            self.assertTrue(client.over)

    def test_a_close_of_either_side_closes_the_other(self) -> None:
        client, chat = self.open(gateway())
        client.abortConnection()
        self.assertTrue(chat.ended)
        client, chat = self.open(gateway())
        chat.abortConnection()
        self.assertTrue(client.ended)

    def test_a_silent_upgrade_is_504_and_a_silent_tunnel_is_cut(self) -> None:
        edge = gateway()
        client = edge.send(SOCKET)
        run(edge.clock, 13)
        self.assertEqual(status(client.take()), 504)
        edge = gateway()
        client, chat = self.open(edge)
        run(edge.clock, 303)
        self.assertEqual(client.ended, "cut")
        self.assertTrue(chat.ended)

    @proves("gateway: shutdown")
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

    @proves("gateway: GET with Upgrade: websocket")
    def test_an_upgrade_without_chat_is_502(self) -> None:
        edge = gateway()
        edge.upstreams[Route.WS].down = True
        self.assertEqual(status(edge.ask(SOCKET)[0]), 502)
