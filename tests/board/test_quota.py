"""A place is taken before the act, and given back when there was none."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.quota import Place, Quota
from tests.support.live import TestBoard


class QuotaTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.live = TestBoard()

    def take(self, quota: Quota, key: str, at: float) -> bool:
        return self.live.do(lambda transaction: quota.take(transaction, key), at) is not None

    def test_no_more_than_the_limit_in_any_window(self) -> None:
        quota = Quota.of("two", 2, 10.0)
        self.assertEqual([self.take(quota, "ann", at) for at in (0, 5, 9.9)], [True, True, False])
        self.assertTrue(self.take(quota, "bob", 9.9), "keys do not share")
        self.assertEqual(
            [self.take(quota, "ann", at) for at in (10, 14.9, 15)], [True, False, True]
        )

    def test_who_finds_none_is_told_how_long_to_wait(self) -> None:
        quota = Quota.of("two", 2, 10.0)
        for at, wait, full in ((0, 0.0, False), (4, 0.0, True), (6, 4.0, True), (10, 0.0, True)):
            found = self.live.do(lambda transaction: quota.take_or_wait(transaction, "ann"), at)
            self.assertEqual(found, wait)
            self.assertEqual(
                self.live.do(lambda transaction: quota.is_full(transaction, "ann")), full
            )

    def test_a_place_given_back_can_be_taken_again(self) -> None:
        quota = Quota.of("one", 1, 10.0)
        self.assertTrue(self.take(quota, "ann", 1.0))
        self.live.do(lambda transaction: quota.give_back(transaction, "ann", 1.0))
        self.assertEqual(self.live.board.held(quota.kind), 0)
        self.assertTrue(self.take(quota, "ann", 2.0))
        self.live.do(lambda transaction: quota.give_back(transaction, "ann", 1.0))
        self.assertFalse(self.take(quota, "ann", 3.0), "only what was taken can be given back")
        self.live.do(lambda transaction: quota.give_back(transaction, "nobody", 1.0))

    def test_giving_one_place_back_leaves_the_others_taken(self) -> None:
        quota = Quota.of("two", 2, 10.0)
        self.assertTrue(self.take(quota, "ann", 1.0) and self.take(quota, "ann", 2.0))
        self.live.do(lambda transaction: quota.give_back(transaction, "ann", 1.0))
        self.assertEqual([self.take(quota, "ann", 3.0) for _ in range(2)], [True, False])

    def test_a_place_is_kept_only_by_an_act_that_used_it(self) -> None:
        quota = Quota.of("one", 1, 10.0)

        async def act(seen: list[bool], *, use: bool = False, fail: bool = False) -> None:
            async with quota.place(self.live.board, "ann") as place:
                seen.append(place.free)
                seen.append(await free(quota.place(self.live.board, "ann")))
                if fail:
                    raise OSError
                place.used = use

        async def free(place: Place) -> bool:
            async with place:
                return place.free

        seen: list[bool] = []
        self.successResultOf(Deferred.fromCoroutine(act(seen)))
        self.assertEqual(seen, [True, False], "it is taken for the time of the act")
        self.failureResultOf(Deferred.fromCoroutine(act(seen, fail=True)), OSError)
        self.successResultOf(Deferred.fromCoroutine(act(seen, use=True)))
        self.successResultOf(Deferred.fromCoroutine(act(seen)))
        self.assertEqual(seen[2:], [True, False, True, False, False, False])

    def test_an_act_that_is_thrown_away_with_its_process_waits_for_nothing(self) -> None:
        """Python forbids it to wait; what it took comes back when its time is over."""
        quota = Quota.of("one", 1, 10.0)

        async def act() -> None:
            async with quota.place(self.live.board, "ann"):
                await Deferred()

        running = act()
        running.send(None)  # its place
        running.close()
        self.assertFalse(self.take(quota, "ann", 9.0))
        self.assertTrue(self.take(quota, "ann", 11.0))
