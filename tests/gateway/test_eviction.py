"""When the gateway is full, a new connection replaces the connection that was idle longest."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.limits import ConnectionCounts, NetworkBuckets
from svcserver.gateway.policy import Route
from svcserver.kernel.counters import Counted
from tests.edge.wires import OK, PLENTY, Edge, Wire, gateway

GET = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
UPGRADE = b"GET // HTTP/1.1\r\nUpgrade: websocket\r\nHost: localhost\r\n\r\n"


class EvictionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.edge: Edge = gateway(self.clock)
        policy, factory = self.edge.policy, self.edge.factory
        policy.counts = ConnectionCounts(3, 3, NetworkBuckets(PLENTY))
        policy.counts.make_room = lambda: policy.evicted(factory.evict(policy.counts.beside))
        factory.on_lost = policy.left

    def arrive(self, peer: str) -> Wire | None:
        """Advance the clock and connect from ``peer``; return None if the gateway is full."""
        self.clock.advance(0.1)
        return self.edge.connect(peer) if self.edge.policy.admit(peer) else None

    def come(self, peer: str) -> Wire:
        wire = self.arrive(peer)
        assert wire is not None
        return wire

    def evicted(self) -> dict[str, int]:
        return dict(self.edge.policy.counters.by_reason(Counted.EVICTED_CONNECTIONS))

    def test_the_longest_idle_gives_way_and_is_counted_once(self) -> None:
        first, second, third = (self.come(peer) for peer in ("a", "b", "c"))
        first.protocol.dataReceived(GET)
        self.edge.upstream.say(OK)  # the connection is idle from now on
        self.come("d")
        self.assertEqual([wire.ended for wire in (first, second, third)], ["", "cut", ""])
        self.assertEqual(self.edge.policy.counts.total, 3)
        self.assertEqual(self.evicted(), {"idle": 1})
        self.come("e"), self.come("f")
        self.assertEqual([first.ended, third.ended], ["cut", "cut"])
        self.assertEqual(
            (self.edge.policy.counts.total, len(self.edge.factory.channels)),
            (3, 3),
        )

    def test_a_client_with_more_connections_is_evicted_first(self) -> None:
        player, older, second = self.come("a"), self.come("b"), self.come("b")
        self.come("c")
        self.assertEqual([player.ended, older.ended, second.ended], ["", "cut", ""])

    def test_waiting_clients_and_tunnels_are_not_evicted(self) -> None:
        requests, uploads, chats = (self.come(peer) for peer in ("a", "b", "c"))
        requests.protocol.dataReceived(GET)
        uploads.protocol.dataReceived(POST)
        chats.protocol.dataReceived(UPGRADE)
        self.edge.upstreams[Route.WS].say(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n")
        newcomer = self.come("d")
        self.assertEqual([requests.ended, uploads.ended, chats.ended], ["", "cut", ""])
        self.assertEqual(self.evicted(), {"slow": 1})
        newcomer.protocol.dataReceived(GET)
        self.assertIsNone(self.arrive("e"))
        self.assertEqual(self.edge.policy.counts.total, 3)

    def test_a_candidate_that_became_active_is_not_evicted(self) -> None:
        first, second, third = (self.come(peer) for peer in ("a", "b", "c"))
        self.come("d")  # one check finds all idle connections
        second.protocol.dataReceived(GET)
        self.come("e")
        self.assertEqual([first.ended, second.ended, third.ended], ["cut", "", "cut"])
