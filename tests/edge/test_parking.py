"""Requests are held while their upstream restarts, for up to 5 s; then they get 503."""

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.parking import MOST, PARK_S, RESTARTS, Parking
from svcserver.edge.verdicts import Unreachable
from svcserver.kernel.headers import ATTEMPT
from tests.edge.wires import Edge, gateway, status

H = b"Host: h\r\n"
GET = b"GET /a HTTP/1.1\r\n" + H + b"\r\n"
POST = b"POST /a HTTP/1.1\r\n" + H + b"Content-Length: 4\r\n\r\n"


def running() -> Edge:
    """Return a gateway whose metagame has answered a request."""
    edge = gateway()
    edge.upstream.parks()
    assert status(edge.ask(GET)[0]) == 200
    return edge


class ParkingTests(SynchronousTestCase):
    def test_a_request_waits_for_the_restart_and_is_answered(self) -> None:
        edge = running()
        edge.upstream.end()
        wires = [edge.connect() for _ in range(3)]
        for wire in wires:
            wire.protocol.dataReceived(POST)
            wire.protocol.dataReceived(b"body")
        edge.clock.advance(2.0)
        self.assertEqual([wire.take() for wire in wires], [b"", b"", b""])
        edge.upstream.down = False
        edge.clock.pump([0.1, 0, 0])
        edge.upstream.serve()
        self.assertEqual([status(wire.take()) for wire in wires], [200, 200, 200])
        self.assertEqual(
            [request.body for request in edge.upstream.take_requests()][-3:], [b"body"] * 3
        )

    def test_after_five_seconds_a_parked_request_gets_503_and_retry_after(self) -> None:
        edge = running()
        edge.upstream.end()
        wire = edge.send(GET)
        edge.clock.pump([0.1] * int(PARK_S * 10 - 2))
        self.assertEqual(wire.take(), b"")
        edge.clock.pump([0.1] * 4)
        reply = wire.take()
        self.assertEqual(status(reply), 503)
        self.assertIn(b"Retry-After: 2\r\n", reply)
        self.assertIn(b'{"error":"upstream_restarting"}', reply)

    def test_an_upstream_that_was_never_up_or_stays_down_is_502_at_once(self) -> None:
        edge = gateway()
        edge.upstream.parks()
        edge.upstream.down = True
        self.assertEqual(status(edge.ask(GET)[0]), 502)
        edge = running()
        edge.upstream.end()
        edge.connect().protocol.dataReceived(GET)
        edge.clock.pump([0.1] * int(RESTARTS * PARK_S * 10 + 2))
        self.assertEqual(status(edge.ask(GET)[0]), 502)
        edge.upstream.down = False
        self.assertEqual(status(edge.ask(GET)[0]), 200)

    def test_a_parked_request_is_dropped_when_its_client_leaves(self) -> None:
        edge = running()
        parking = edge.upstream.pool.parking
        assert parking is not None
        edge.upstream.end()
        wire = edge.send(POST)
        self.assertEqual(len(parking), 1)
        wire.abortConnection()
        self.assertEqual(len(parking), 0)
        self.assertEqual(parking._bytes, 0)
        edge.upstream.down = False
        edge.clock.pump([0.1] * 3)
        self.assertEqual(len(edge.upstream.take_requests()), 1)

    def test_a_request_under_way_when_the_upstream_ends_is_sent_again(self) -> None:
        edge = running()
        asking, telling = edge.connect(), edge.connect()
        asking.protocol.dataReceived(GET)
        telling.protocol.dataReceived(POST + b"body")
        edge.upstream.end()
        self.assertEqual((status(asking.take()), status(telling.take())), (0, 0))
        edge.upstream.down = False
        edge.clock.pump([0.1] * 3)
        edge.upstream.serve()
        self.assertEqual((status(asking.take()), status(telling.take())), (200, 200))

    def test_a_post_is_sent_again_with_its_body(self) -> None:
        for length, tries in ((70, 2), (70_000, 1)):
            edge = running()
            wire = edge.connect()
            head = b"POST /Character/ HTTP/1.1\r\n" + H
            forged = b"X-Svc-Attempt: 9\r\n"
            wire.protocol.dataReceived(head + forged + b"Content-Length: %d\r\n\r\n" % length)
            wire.protocol.dataReceived(b"x" * (length - 1))
            edge.upstream.end()
            edge.upstream.down = False
            edge.clock.pump([0.1] * 3)
            wire.protocol.dataReceived(b"y")
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 200 if tries == 2 else 502)
            bodies = [request.body for request in edge.upstream.take_requests() if request.complete]
            if tries == 2:
                self.assertEqual(bodies[-1], b"x" * (length - 1) + b"y")
                requests = [dict(request.headers) for request in edge.upstream.take_requests()]
                self.assertEqual([request.get(ATTEMPT) for request in requests], [None, None, b"2"])

    def test_parked_requests_are_limited_in_number_and_bytes(self) -> None:
        clock = Clock()
        parking = Parking(clock, "it", Deferred, most_bytes=10)
        parking.reached()
        refused = Unreachable(502, "bad_gateway")
        first = parking.wait(refused, 6)
        self.assertNoResult(first)
        self.assertEqual(self.failureResultOf(parking.wait(refused, 5)).value.status, 503)
        first.cancel()
        self.failureResultOf(first)
        many = [parking.wait(refused, 0) for _ in range(MOST)]
        self.assertEqual(self.failureResultOf(parking.wait(refused, 0)).value.status, 503)
        parking.close()
        for waiting in many:
            self.assertEqual(self.failureResultOf(waiting).value.status, 503)
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_the_network_with_the_most_waiting_requests_gives_way(self) -> None:
        parking = Parking(Clock(), "it", Deferred, most=20, most_bytes=640)
        parking.reached()
        refused: dict[str, int] = {}

        def park(peer: str, size: int = 64) -> None:
            place = parking.wait(Unreachable(502, "bad_gateway"), size, peer=peer)
            place.addErrback(lambda _: refused.update({peer: refused.get(peer, 0) + 1}))

        customer = [f"2001:db8:0:{n}::1" for n in range(5)]  # networks of one /48
        for peer in ["10.0.0.1"] * 5 + customer:
            park(peer)
        for n in range(4):
            park(f"10.0.1.{n}")
        self.assertEqual(refused, {"10.0.0.1": 2, customer[4]: 1, customer[3]: 1})
        park("10.0.0.1")  # this address itself has parked the most requests
        self.assertEqual(refused["10.0.0.1"], 3)
        for _ in range(20):  # the number of parked requests is limited like their bytes
            park("10.0.2.1", 0)
        self.assertEqual((len(parking), refused.pop("10.0.2.1")), (20, 10))
        parking.close()
        self.assertEqual((len(parking), parking._bytes, parking._networks), (0, 0, {}))

    def test_a_request_is_parked_at_once_if_the_upstream_is_known_lost(self) -> None:
        edge = running()
        parking = edge.upstream.pool.parking
        assert parking is not None
        parking.suspend()
        edge.upstream.pool.drop_idle()
        tried = len(edge.upstream.wires)
        wire = edge.send(POST + b"body")
        self.assertEqual((len(edge.upstream.wires), len(parking)), (tried, 1))
        edge.clock.pump([0.1, 0])
        edge.upstream.serve()
        self.assertEqual(status(wire.take()), 200)
