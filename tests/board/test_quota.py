"""A quota is charged before an operation, and refunded if the operation did not take place."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.quota import Quota, QuotaPlace
from tests.support.live import TestBoard


class QuotaTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.live = TestBoard()

    def take(self, quota: Quota, key: str, at: float) -> bool:
        return self.live.do(lambda transaction: quota.take(transaction, key), at) is not None

    def give_back(self, quota: Quota, key: str, at: float) -> None:
        self.live.do(lambda transaction: quota.give_back(transaction, key, at))

    def test_no_more_than_the_limit_in_any_window(self) -> None:
        quota = Quota.named("two", 2, 10.0)
        self.assertEqual([self.take(quota, "ann", at) for at in (0, 5, 9.9)], [True, True, False])
        self.assertTrue(self.take(quota, "bob", 9.9), "keys do not share")
        self.assertEqual(
            [self.take(quota, "ann", at) for at in (10, 14.9, 15)], [True, False, True]
        )

    def test_a_full_quota_returns_the_time_to_wait(self) -> None:
        quota = Quota.named("two", 2, 10.0)
        for at, wait, full in ((0, 0.0, False), (4, 0.0, True), (6, 4.0, True), (10, 0.0, True)):
            wait_s = self.live.do(lambda transaction: quota.take_or_wait(transaction, "ann"), at)
            self.assertEqual(wait_s, wait)
            self.assertEqual(
                self.live.do(lambda transaction: quota.is_full(transaction, "ann")), full
            )

    def test_a_place_given_back_can_be_taken_again(self) -> None:
        quota = Quota.named("one", 1, 10.0)
        self.assertTrue(self.take(quota, "ann", 1.0))
        self.give_back(quota, "ann", 1.0)
        self.assertEqual(self.live.board.held(quota.kind), 0)
        self.assertTrue(self.take(quota, "ann", 2.0))
        self.give_back(quota, "ann", 1.0)
        self.assertFalse(self.take(quota, "ann", 3.0), "only what was taken can be given back")
        self.give_back(quota, "nobody", 1.0)

    def test_giving_one_place_back_leaves_the_others_taken(self) -> None:
        quota = Quota.named("two", 2, 10.0)
        self.assertTrue(self.take(quota, "ann", 1.0) and self.take(quota, "ann", 2.0))
        self.give_back(quota, "ann", 1.0)
        self.assertEqual([self.take(quota, "ann", 3.0) for _ in range(2)], [True, False])

    def test_a_place_is_given_back_unless_it_is_used(self) -> None:
        quota = Quota.named("one", 1, 10.0)

        async def act(places: list[bool], *, use: bool = False, fail: bool = False) -> None:
            async with quota.place(self.live.board, "ann") as place:
                places.append(place.free)
                places.append(await free(quota.place(self.live.board, "ann")))
                if fail:
                    raise OSError
                place.used = use

        async def free(place: QuotaPlace) -> bool:
            async with place:
                return place.free

        places: list[bool] = []
        self.successResultOf(Deferred.fromCoroutine(act(places)))
        self.assertEqual(places, [True, False], "it is taken for the time of the act")
        self.failureResultOf(Deferred.fromCoroutine(act(places, fail=True)), OSError)
        self.successResultOf(Deferred.fromCoroutine(act(places, use=True)))
        self.successResultOf(Deferred.fromCoroutine(act(places)))
        self.assertEqual(places[2:], [True, False, True, False, False, False])

    def test_a_closed_coroutine_does_not_give_its_place_back(self) -> None:
        """A closed coroutine cannot await the refund, so the charge remains until it expires."""
        quota = Quota.named("one", 1, 10.0)

        async def act() -> None:
            async with quota.place(self.live.board, "ann"):
                await Deferred()

        running = act()
        running.send(None)  # its place
        running.close()
        self.assertFalse(self.take(quota, "ann", 9.0))
        self.assertTrue(self.take(quota, "ann", 11.0))
