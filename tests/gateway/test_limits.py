"""The gateway's limits of requests and connections for each client address."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.limits import TIERS, ConnectionCounts, NetworkBuckets, Spending
from svcserver.gateway.policy import Bucket
from svcserver.gateway.service import figures
from svcserver.kernel.counters import Counted
from svcserver.kernel.networks import network_of
from svcserver.kernel.rates import Rate, TokenBuckets
from tests.edge.wires import gateway
from tests.support.proves import proves

H = b"Host: localhost\r\n"
FULL_ADDRESS, FULL_NETWORK = "max_connections_per_ip", "max_connections_per_network"


def spending(burst: float, per_minute: float) -> Spending:
    return Spending(dict.fromkeys(Bucket, Rate(burst, per_minute)))


class BucketTests(SynchronousTestCase):
    @proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
    def test_retry_after_is_the_time_to_the_next_token(self) -> None:
        for per_minute, seconds in ((60, 1), (1, 60), (0.2, 300), (180, 1)):
            some = spending(2, per_minute)
            self.assertEqual([some.take(Bucket.GENERAL, "1.2.3.4", 0.0) for _ in range(2)], [0, 0])
            self.assertEqual(some.take(Bucket.GENERAL, "1.2.3.4", 0.0), seconds)
            self.assertEqual(some.take(Bucket.GENERAL, "1.2.3.4", float(seconds)), 0)

    @proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.floats(0, 30), max_size=60), st.integers(1, 8), st.floats(1, 600))
    def test_never_more_than_burst_and_refill(
        self, gaps: list[float], burst: int, per_minute: float
    ) -> None:
        some, now, passed = spending(burst, per_minute), 0.0, 0
        for gap in gaps:
            now += gap
            passed += some.take(Bucket.WS, "a", now) == 0
        self.assertLessEqual(passed, burst + now * per_minute / 60 + 1e-6)

    def test_each_address_and_bucket_has_its_own_tokens(self) -> None:
        some = spending(1, 1)
        self.assertEqual(some.take(Bucket.GENERAL, "1.2.3.4", 0), 0)
        self.assertEqual(some.take(Bucket.GENERAL, "1.2.3.5", 0), 0)
        self.assertEqual(some.take(Bucket.TOKEN, "1.2.3.4", 0), 0)
        self.assertTrue(some.take(Bucket.GENERAL, "1.2.3.4", 0))

    @proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
    def test_an_ipv6_network_is_one_address(self) -> None:
        self.assertEqual(network_of("2001:db8:1:2::1"), network_of("2001:db8:1:2:ffff::9"))
        self.assertNotEqual(network_of("2001:db8:1:2::1"), network_of("2001:db8:1:3::1"))
        self.assertEqual(network_of("::ffff:203.0.113.9"), "203.0.113.9")
        self.assertEqual(network_of("fe80::1%eth0"), network_of("fe80::2%eth0"))

    @proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
    def test_buckets_of_many_addresses_take_bounded_memory(self) -> None:
        some = TokenBuckets(Rate(1, 1), 100)
        for n in range(1000):
            some.take(str(n), 0)
        self.assertEqual(len(some), 100)


class CrowdTests(SynchronousTestCase):
    @proves("limit: Open connections per address / in total")
    def test_connections_are_counted_and_forgotten(self) -> None:
        counts = ConnectionCounts(3, 2, NetworkBuckets(Rate(100, 100)))
        self.assertEqual([counts.enter("a", 0) for _ in range(2)], ["", ""])
        self.assertEqual(counts.enter("a", 0), "max_connections_per_ip")
        self.assertEqual(counts.enter("b", 0), "")
        self.assertEqual(counts.enter("c", 0), "max_connections")
        counts.leave("a")
        self.assertEqual(counts.enter("c", 0), "")
        for who in ("a", "b", "c"):
            counts.leave(who)
        self.assertEqual((counts.total, len(counts)), (0, 0))

    def test_a_closed_connection_makes_room_for_a_new_connection(self) -> None:
        counts = ConnectionCounts(100, 3, NetworkBuckets(Rate(100, 100)))
        for _ in range(3):
            counts.enter("fe80::1%eth0", 0)  # a zone is not part of the address
        counts.leave("fe80::1%eth1")
        self.assertEqual(counts.enter("fe80::2", 0), "")
        self.assertEqual(counts.enter("fe80::2", 0), "max_connections_per_ip")
        self.assertEqual((counts.total, len(counts)), (3, len(TIERS)))
        counts.leave("fe80::1"), counts.leave("fe80::1")
        self.assertEqual([counts.enter("fe80::3", 0) for _ in range(2)], ["", ""])
        self.assertEqual(counts.enter("fe80::3", 0), "max_connections_per_ip")

    def test_a_wide_network_has_the_share_of_a_few_addresses(self) -> None:
        counts = ConnectionCounts(9_999, 10, NetworkBuckets(Rate(999, 999)))
        whole_56 = [counts.enter(f"2001:db8:1:{n:x}::1", 0) for n in range(25)]
        self.assertEqual((whole_56.count(""), set(whole_56[20:])), (20, {FULL_NETWORK}))
        whole_48 = [counts.enter(f"2001:db8:1:{n << 8:x}::1", 0) for n in range(1, 40)]
        self.assertEqual((whole_48.count(""), set(whole_48[20:])), (20, {FULL_NETWORK}))
        self.assertEqual(counts.enter("2001:db8:2::1", 0), "")
        self.assertEqual([counts.enter(f"192.0.2.{n}", 0) for n in range(60)], [""] * 60)
        self.assertEqual(
            (counts.beside("2001:db8:1::9"), counts.beside("192.0.2.1")),
            (40, 1),
        )
        for n in range(20):
            counts.leave(f"2001:db8:1:{n:x}::1")
        self.assertEqual(counts.enter("2001:db8:1:ff::1", 0), "")

    def test_requests_from_one_wide_ipv6_network_are_rate_limited(self) -> None:
        some = spending(5, 1)
        requests = [some.take(Bucket.REGISTER, f"2001:db8:1:{n:x}::1", 0) for n in range(256)]
        self.assertEqual(requests.count(0), 10)
        requests = [
            some.take(Bucket.REGISTER, f"2001:db8:1:{n:x}::1", 0) for n in range(256, 9_999)
        ]
        self.assertEqual(requests.count(0), 10)

    def test_at_the_limit_a_connection_is_accepted_only_if_room_is_made(self) -> None:
        room = [True, False]
        counts = ConnectionCounts(1, 2, NetworkBuckets(Rate(100, 100)), lambda: room.pop(0))
        self.assertEqual([counts.enter("a", 0) for _ in range(3)], ["", "", FULL_ADDRESS])
        self.assertEqual(counts.enter("b", 0), "max_connections")

    @proves("limit: Gateway token buckets per IPv4 address or IPv6 /64")
    def test_connections_over_the_connect_rate_are_refused(self) -> None:
        counts = ConnectionCounts(100, 100, NetworkBuckets(Rate(2, 60)))
        self.assertEqual([counts.enter("a", 0) for _ in range(3)], ["", "", "connect_rate"])
        self.assertEqual(counts.enter("a", 1), "")


class RefusedTests(SynchronousTestCase):
    @proves("gateway: 429 rate_limited", "limit: Register through the gateway")
    def test_an_empty_bucket_is_429_with_retry_after(self) -> None:
        edge = gateway(Clock(), rates={Bucket.REGISTER: Rate(5, 0.2)})
        ask = b"POST /svc/api/Register HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n\r\n"
        for _ in range(5):
            self.assertIn(b"200 OK", edge.ask(ask)[0])
        reply, wire = edge.ask(ask)
        self.assertTrue(reply.startswith(b"HTTP/1.1 429 Too Many Requests\r\n"))
        self.assertIn(b"Retry-After: 300\r\n", reply)
        self.assertTrue(reply.endswith(b'{"error":"rate_limited"}'))
        self.assertFalse(wire.over)
        self.assertIn(b"200 OK", edge.ask(ask, "203.0.113.9")[0])

    @proves("gateway: 429 rate_limited", "gateway: order of refusals")
    def test_refused_requests_pay_too_and_429_comes_first(self) -> None:
        edge = gateway(Clock(), rates={Bucket.GENERAL: Rate(2, 1)})
        ask = b"GET /svc/api/InviteCodes HTTP/1.1\r\n" + H + b"\r\n"
        result = [edge.ask(ask)[0][9:12] for _ in range(3)]
        self.assertEqual(result, [b"403", b"403", b"429"])
        self.assertEqual((edge.policy.answered, edge.policy.refused), (3, 3))
        names = {name: figure.read() for name, figure in figures(edge.policy).items()}
        self.assertEqual(names["svc_gateway_requests"], 3.0)
        counters = edge.policy.counters
        refusals = {"admin_route": 2, "rate_limited:general": 1}
        self.assertEqual(counters.by_reason(Counted.REFUSALS), refusals)
        self.assertEqual(counters.by_reason(Counted.THROTTLED), {"general": 1})
