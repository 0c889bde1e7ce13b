"""Each address is reported once to the allowlist helper, and no request waits for the helper."""

from typing import Any

from treq.testing import StubTreq
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from svcserver.edge.allowlist_client import FIRST_AGAIN_S, LATE_S, TIMEOUT_S
from svcserver.gateway import feed as feeds
from svcserver.gateway.feed import NETWORK_TOLD, NETWORK_WANTED, WANTED_S, AllowlistFeed
from svcserver.kernel.secrets import Secret
from tests.edge.wires import gateway
from tests.support.proves import proves

SECRET = "helper-secret-helper-secret-helper"
HEARTBEAT = (
    b"POST /heartbeat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)


class Helper(Resource):
    """A fake allowlist helper that records requests; without a ``status``, it never answers."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.status: int | None = 200
        self.reported: list[tuple[bytes, bytes, bytes]] = []

    def render_POST(self, request: Any) -> Any:
        secret = request.getHeader(b"x-allowlist-secret")
        self.reported.append((request.path, request.content.read(), secret))
        if self.status is None:
            return NOT_DONE_YET
        request.setResponseCode(self.status)
        return b"{}"


class FeedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1000)
        self.helper = Helper()
        self.http = StubTreq(self.helper)
        self.feed = self.make(["http://127.0.0.1:61005"])

    def make(self, urls: list[str]) -> AllowlistFeed:
        return AllowlistFeed(self.http, self.clock, urls, Secret(SECRET), 60)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.http.flush()

    def report_address(self, address: str = "203.0.113.9") -> None:
        self.feed.report(address)
        self.http.flush()

    @proves("event: allowlist report after a 2xx, once per period, never waited for")
    def test_a_2xx_answer_is_reported_with_the_secret(self) -> None:
        edge = gateway(self.clock, feed=self.feed)
        reply, _ = edge.ask(HEARTBEAT, "203.0.113.9")
        self.http.flush()
        self.assertIn(b"200 OK", reply)
        self.assertEqual(
            self.helper.reported, [(b"/allow", b'{"ip":"203.0.113.9"}', SECRET.encode())]
        )

    @proves("event: allowlist report after a 2xx, once per period, never waited for")
    def test_an_answer_other_than_2xx_reports_no_address(self) -> None:
        edge = gateway(self.clock, feed=self.feed)
        for status in (b"401 No", b"500 No"):
            edge.upstream.always = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"
            edge.ask(HEARTBEAT)
        self.http.flush()
        self.assertEqual(self.helper.reported, [])

    @proves("a ban or a kick shuts the game ports")
    def test_a_kicked_player_is_reported_again_after_signing_in(self) -> None:
        edge = gateway(self.clock, feed=self.feed)
        for status, reports in ((b"200 OK", 1), (b"200 OK", 1), (b"401 No", 1), (b"200 OK", 2)):
            edge.upstream.always = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"
            edge.ask(HEARTBEAT, "203.0.113.9")
            self.http.flush()
            self.assertEqual(len(self.helper.reported), reports, status)

    @proves("event: allowlist report after a 2xx, once per period, never waited for")
    def test_a_silent_helper_delays_nobody(self) -> None:
        self.helper.status = None
        edge = gateway(self.clock, feed=self.feed)
        self.assertIn(b"200 OK", edge.ask(HEARTBEAT)[0])
        self.http.flush()
        self.assertEqual(len(self.helper.reported), 1)

    @proves("event: allowlist report after a 2xx, once per period, never waited for")
    def test_an_address_is_reported_once_per_period(self) -> None:
        self.report_address()
        self.report_address()
        self.clock.advance(59)
        self.report_address()
        self.assertEqual(len(self.helper.reported), 1)
        self.clock.advance(1)
        self.report_address()
        self.report_address("203.0.113.10")
        self.assertEqual(len(self.helper.reported), 3)

    @proves("event: helper down, several helpers")
    def test_a_failed_report_is_retried_and_warned_of_once_a_minute(self) -> None:
        self.helper.status = 500
        with capturedLogs() as events:
            self.report_address()
            self.report_address()  # adds no second report
            for reports in (1, 2, 3, 4):
                self.assertEqual((len(self.helper.reported), self.feed.waiting), (reports, 1))
                self.pass_time(FIRST_AGAIN_S * 2 ** (reports - 1))
        self.assertEqual([event["log_level"].name for event in events], ["warn"])
        self.assertNotIn(SECRET, str(events))
        self.helper.status = 200
        self.pass_time(LATE_S)
        self.assertEqual((len(self.helper.reported), self.feed.waiting), (6, 0))
        self.pass_time(LATE_S)
        self.assertEqual(len(self.helper.reported), 6)

    def test_a_failed_report_is_dropped_once_the_player_is_silent(self) -> None:
        self.helper.status = 503
        self.report_address()
        for _ in range(30):
            self.pass_time(1)
        self.report_address()  # still here
        for _ in range(int(WANTED_S) - 1):
            self.pass_time(1)
            self.assertEqual(self.feed.waiting, 1)
        for _ in range(10):
            self.pass_time(1)
        self.assertEqual((self.feed.waiting, self.clock.getDelayedCalls()), (0, []))

    def test_a_report_that_the_helper_refuses_for_good_is_not_repeated(self) -> None:
        self.helper.status = 400
        self.report_address()
        self.assertEqual((self.feed.waiting, self.clock.getDelayedCalls()), (0, []))

    @proves("a ban or a kick shuts the game ports")
    def test_a_removed_address_is_not_reported_by_a_later_retry(self) -> None:
        self.helper.status = 500
        self.report_address()
        self.feed.report_again("203.0.113.9")
        self.helper.status = 200
        self.pass_time(LATE_S)
        self.assertEqual((len(self.helper.reported), self.feed.waiting), (1, 0))

    def test_each_report_is_timed(self) -> None:
        times: list[tuple[str, int, float]] = []
        self.feed.counters.time_request = lambda *arguments: times.append(arguments)
        self.helper.status = None
        self.report_address()
        self.pass_time(TIMEOUT_S)
        self.helper.status = 200
        self.pass_time(FIRST_AGAIN_S)
        self.assertEqual(times, [("allowlist", 502, TIMEOUT_S), ("allowlist", 200, 0.0)])

    @proves("event: helper down, several helpers")
    def test_a_report_to_a_silent_helper_times_out_and_is_retried(self) -> None:
        self.helper.status = None
        self.report_address()
        self.report_address()
        self.assertEqual(len(self.helper.reported), 1)
        with capturedLogs() as events:
            self.clock.advance(TIMEOUT_S)
            self.http.flush()
        self.assertEqual(len(events), 1)
        self.pass_time(FIRST_AGAIN_S)
        self.assertEqual(len(self.helper.reported), 2)
        self.feed.stop()
        self.http.flush()

    @proves("event: helper down, several helpers")
    def test_an_address_is_reported_to_every_helper(self) -> None:
        self.feed = self.make(["http://127.0.0.1:61005", "http://127.0.0.1:61006"])
        self.report_address()
        self.assertEqual(len(self.helper.reported), 2)

    def test_a_silent_helper_does_not_delay_the_others(self) -> None:
        dead, healthy = "http://127.0.0.1:61005", "http://127.0.0.1:61006"
        self.patch(feeds, "MAX_UNDER_WAY", 2)
        self.patch(feeds, "MOST_WANTED", 4)
        reported: list[bytes] = []

        async def post(http: Any, clock: Any, url: str, *more: Any) -> None:
            if url.startswith(dead):
                await Deferred()
            reported.append(more[-1]["ip"])

        self.patch(feeds.allowlist_client, "post", post)
        self.feed = self.make([dead, healthy])
        addresses = [f"203.0.113.{number}" for number in range(9)]
        for address in addresses:
            self.feed.report(address)
        self.assertEqual((reported, self.feed.waiting), (addresses, 4))
        self.successResultOf(self.feed.stop())

    def test_a_report_that_came_too_early_is_repeated(self) -> None:
        self.helper.status = 429
        self.report_address()
        self.helper.status = 200
        self.pass_time(FIRST_AGAIN_S)
        self.assertEqual((len(self.helper.reported), self.feed.waiting), (2, 0))

    def test_stopping_cancels_pending_reports(self) -> None:
        self.helper.status = None
        self.report_address()
        stopped = self.feed.stop()
        self.assertIsInstance(stopped, Deferred)
        self.http.flush()
        self.successResultOf(stopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_network_gets_a_limited_share_of_pending_reports(self) -> None:
        self.helper.status = None
        for number in range(100):
            self.report_address(f"2001:db8::{number:x}")
        self.assertEqual(len(self.helper.reported), NETWORK_WANTED)
        self.report_address("2001:db8:0:1::1")
        self.report_address("203.0.113.9")
        self.assertEqual(len(self.helper.reported), NETWORK_WANTED + 2)
        self.feed.stop()
        self.http.flush()

    def test_the_newest_addresses_of_a_network_are_cached(self) -> None:
        for number in range(NETWORK_TOLD + 1):
            self.report_address(f"2001:db8::{number:x}")
        count = len(self.helper.reported)
        self.report_address(f"2001:db8::{NETWORK_TOLD:x}")
        self.assertEqual(len(self.helper.reported), count)
        self.report_address("2001:db8::0")
        self.assertEqual(len(self.helper.reported), count + 1)
