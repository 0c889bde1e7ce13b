"""The choice of a worker for each request, also when a worker is down or hangs."""

import random
from collections import Counter

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.parking import PARK_S, Parking
from svcserver.edge.spread import OUT_S, Spread, members_of
from svcserver.edge.upstream import UpstreamConnection
from svcserver.edge.verdicts import Unreachable
from svcserver.gateway.upstreams import (
    AGAIN_S,
    RENEW_S,
    SILENT_S,
    Checkup,
    Sentinel,
    SentinelConnection,
)
from svcserver.gateway.upstreams import CHECKUP_PATIENCE_S as PATIENCE_S
from tests.edge.wires import OK, Upstream, Wire, run


class SpreadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.workers = [Upstream(self.clock) for _ in range(4)]
        pools = [worker.pool for worker in self.workers]
        parking = Parking(self.clock, "the metagame", Deferred)
        for pool in pools:
            pool.parking = parking
        self.spread = Spread(self.clock, members_of(pools), parking, random.Random(1))

    def take(self, token: bytes = b"") -> UpstreamConnection:
        upstream = self.spread.near(token) if token else self.spread
        got = upstream.take()
        return got if isinstance(got, UpstreamConnection) else self.successResultOf(got)

    def of(self, connection: UpstreamConnection) -> int:
        return [worker.pool for worker in self.workers].index(connection.pool)

    def test_the_less_busy_of_two_keeps_the_load_even(self) -> None:
        for _ in range(400):
            self.take()
        loads = [worker.pool.in_flight for worker in self.workers]
        self.assertEqual(sum(loads), 400)
        self.assertLess(max(loads) - min(loads), 8)

    def test_a_players_requests_go_to_one_worker_and_players_are_spread(self) -> None:
        result = Counter()
        for number in range(200):
            first = self.take(b"Bearer %d" % number)
            self.spread.give_back(first)
            second = self.take(b"Bearer %d" % number)
            self.spread.give_back(second)
            self.assertEqual(self.of(first), self.of(second))
            result[self.of(first)] += 1
        self.assertEqual(len(result), 4)
        self.assertGreater(min(result.values()), 25)

    def test_a_worker_that_is_away_costs_nobody_a_request(self) -> None:
        self.workers[1].down = True
        for number in range(50):
            self.spread.give_back(self.take(b"Bearer %d" % number))
            self.spread.give_back(self.take())
        self.assertEqual(self.workers[1].wires, [])
        self.clock.advance(OUT_S)
        self.workers[1].down = False
        homes = {self.of(self.take(b"Bearer %d" % number)) for number in range(50)}
        self.assertEqual(homes, {0, 1, 2, 3})

    def test_a_request_is_parked_while_all_workers_are_away(self) -> None:
        self.spread.give_back(self.take())
        for worker in self.workers:
            worker.end()
        why = self.failureResultOf(self.spread.take()).value  # type: ignore[arg-type]
        place = self.spread.wait(why, 0)
        self.assertNoResult(place)
        place.cancel()
        self.failureResultOf(place)

    def test_a_request_does_not_go_round_for_ever(self) -> None:
        why = Unreachable(502, "bad_gateway")
        self.successResultOf(self.spread.wait(why, 0))  # other workers may take the request
        self.clock.advance(PARK_S)
        self.assertIs(self.failureResultOf(self.spread.wait(why, 0, 0.0)).value, why)

    def test_a_player_whose_worker_is_far_busier_goes_to_the_second(self) -> None:
        home = self.of(self.take(b"Bearer x"))
        values = {self.of(self.take(b"Bearer x")) for _ in range(60)}
        self.assertEqual(len(values), 2)
        self.assertIn(home, values)

    def test_a_worker_that_hangs_is_left_out_until_it_answers(self) -> None:
        checkup = Checkup(self.clock, self.spread)
        checkup.startService()
        home = self.of(self.take(b"Bearer x"))
        worker = self.workers[home]
        run(self.clock, SILENT_S + PATIENCE_S + 1)
        self.assertNotEqual(self.of(self.take(b"Bearer x")), home)
        worker.say(OK)
        self.assertEqual(self.of(self.take(b"Bearer x")), home)
        requests = [request for request in worker.take_requests() if request.method == b"HEAD"]
        self.assertEqual(len(requests), 2)
        checkup.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_healthy_worker_is_never_asked(self) -> None:
        checkup = Checkup(self.clock, self.spread)
        for _ in range(20):
            self.spread.give_back(self.take(b"Bearer x"))
            checkup.check()
            self.clock.advance(1)
        self.assertEqual(
            [request for worker in self.workers for request in worker.take_requests()], []
        )


class SentinelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.up = True
        self.wires: list[Wire] = []
        self.reported: list[str] = []
        self.sentinel = Sentinel(
            self.clock,
            self.connect,
            lambda: self.reported.append("lost"),
            lambda: self.reported.append("found"),
        )
        self.sentinel.startService()
        self.addCleanup(self.sentinel.stopService)

    def connect(self, factory: object) -> Deferred[SentinelConnection]:
        if not self.up:
            return fail(ConnectionRefusedError())
        idle = SentinelConnection()
        self.wires.append(Wire(idle))
        idle.makeConnection(self.wires[-1])
        return succeed(idle)

    def test_a_sentinel_reports_an_end_and_a_return(self) -> None:
        self.up = False
        self.wires[0].abortConnection()
        self.assertEqual(self.reported, ["found", "lost"])
        self.clock.pump([0, AGAIN_S, AGAIN_S])
        self.up = True
        self.clock.advance(AGAIN_S)
        self.assertEqual(self.reported, ["found", "lost", "found"])

    def test_a_sentinel_that_renews_its_connection_reports_no_end(self) -> None:
        self.clock.pump([RENEW_S] * 3)
        self.assertEqual(len(self.wires), 4)
        self.assertEqual([wire.ended for wire in self.wires], ["cut", "cut", "cut", ""])
        self.assertEqual(self.reported, ["found"])

    def test_a_stopped_sentinel_leaves_no_timer(self) -> None:
        self.up = False
        self.wires[0].abortConnection()
        self.clock.advance(0)
        self.sentinel.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])
