"""Several gateways share their rate limits: a token spent at one gateway is spent at the others."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.engine import BoardAway
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.gateway.limits import NetworkBuckets, Spending
from svcserver.gateway.policy import Bucket
from svcserver.gateway.sharing import ALONE_S, GAP_S, HELLO_S, MOST_TOLD, Sharing
from svcserver.kernel.rates import Rate

PEER, SECOND_PEER = "203.0.113.1", "203.0.113.2"


class SharingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.board: Any = RehearsedBoard(self.clock.seconds)
        self.running: list[Sharing] = []
        self.first, self.second = self.gateway(), self.gateway()
        self.clock.advance(0)

    def gateway(self, burst: float = 5, per_minute: float = 0.2) -> Spending:
        """Start one of the gateways."""
        made = Spending(dict.fromkeys(Bucket, Rate(burst, per_minute)))
        sharing = Sharing(
            self.clock, self.board, {str(k): figure for k, figure in made.buckets.items()}
        )
        sharing.startService()
        self.running.append(sharing)
        self.addCleanup(sharing.stopService)
        return made

    def taken(self, gateway: Spending, peer: str = PEER, tries: int = 10) -> int:
        """Return how many of several simultaneous requests pass."""
        now = self.clock.seconds()
        return sum(gateway.take(Bucket.REGISTER, peer, now) == 0 for _ in range(tries))

    def test_tokens_given_by_one_gateway_are_owed_by_the_other(self) -> None:
        self.assertEqual(self.taken(self.first), 5)
        self.clock.advance(GAP_S)
        self.assertEqual(self.taken(self.second), 0)
        self.assertEqual(self.taken(self.second, SECOND_PEER), 5)
        self.clock.advance(GAP_S)
        self.assertEqual(self.taken(self.first, SECOND_PEER), 0)

    def test_shared_and_received_tokens_are_metrics(self) -> None:
        def shown(sharing: Sharing) -> list[float]:
            return [figure.read() for figure in sharing.figures().values()]

        first, second = self.running
        self.taken(self.first)
        self.assertEqual((shown(first), shown(second)), ([5, 0], [0, 0]))
        self.clock.advance(GAP_S)
        self.assertEqual((shown(first), shown(second)), ([5, 0], [0, 5]))

    def test_a_single_token_is_published_at_once(self) -> None:
        self.clock.advance(1)
        self.assertEqual(self.taken(self.first, tries=1), 1)
        self.clock.advance(0)
        self.assertEqual(self.taken(self.second), 4)

    def test_a_client_of_both_gateways_at_once_owes_tokens_later(self) -> None:
        self.assertEqual((self.taken(self.first), self.taken(self.second)), (5, 5))
        # the time for five tokens, which both gateways have already spent
        self.clock.advance(5 * 300)
        self.assertEqual((self.taken(self.first), self.taken(self.second)), (0, 0))
        self.clock.advance(301)
        self.assertEqual(self.taken(self.first), 1)

    def test_a_debt_has_a_bound(self) -> None:
        for _ in range(9):
            self.gateway()
        self.clock.advance(HELLO_S)
        self.first.buckets[Bucket.REGISTER].owe(PEER, self.clock.seconds(), 1_000)
        self.clock.advance(10 * 300 + 1)
        self.assertEqual(self.taken(self.first), 5)


class Lonely:
    """A board that no other process shares; it records notifications, or fails if ``away``."""

    def __init__(self, *, away: bool = False) -> None:
        self.reported: list[Any] = []
        self.away = away

    def transact(self, work: Any) -> Deferred[Any]:
        if self.away:
            return fail(BoardAway())
        work(self)
        return succeed(None)

    def publish(self, news: Any) -> None:
        self.reported.append(news)

    def listen(self, news: Any, listener: Any) -> None:
        pass


class AloneTests(SynchronousTestCase):
    def share(self, board: Lonely, rate: Rate) -> tuple[Clock, NetworkBuckets, Sharing]:
        clock, bucket = Clock(), NetworkBuckets(rate)
        some: Any = board
        sharing = Sharing(clock, some, {"general": bucket})
        sharing.startService()
        return clock, bucket, sharing

    def test_without_the_engine_each_counts_by_itself(self) -> None:
        clock, bucket, sharing = self.share(Lonely(away=True), Rate(2, 1))
        self.assertEqual([bucket.take(PEER, 0.0) == 0 for _ in range(3)], [True, True, False])
        clock.advance(60)
        self.assertEqual(bucket.take(PEER, 60.0), 0)
        sharing.stopService()
        self.assertEqual(clock.getDelayedCalls(), [])
        self.assertIsNone(bucket.taken)

    def test_a_lone_gateway_publishes_at_most_every_ten_seconds(self) -> None:
        board = Lonely()
        clock, bucket, sharing = self.share(board, Rate(1_000, 1))
        for _ in range(int(ALONE_S)):
            bucket.take(PEER, clock.seconds())
            clock.advance(1)
        self.assertLessEqual(len(board.reported), 1 + ALONE_S / HELLO_S)
        sharing.stopService()

    def test_a_flood_publishes_a_bounded_number_of_addresses(self) -> None:
        board = Lonely()
        clock, bucket, sharing = self.share(board, Rate(9, 9))
        for number in range(MOST_TOLD + 50):
            bucket.take(f"10.0.{number // 250}.{number % 250}", 0.0)
        clock.advance(HELLO_S)
        self.assertEqual(len(board.reported[-1].of["general"]), MOST_TOLD)
        sharing.stopService()
