"""A day's bytes of an account."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import TooMany
from svcserver.metagame.accounts.allowance import LEAST, Allowance

DAY_S = 86_400


class AllowanceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.allowance = Allowance(86_400_000, self.clock.seconds)

    def test_a_day_is_spent_and_comes_back_evenly(self) -> None:
        self.allowance.spend("a", 86_400_000)
        why = self.assertRaises(TooMany, self.allowance.spend, "a", 1_000)
        self.assertEqual(why.retry_after_s, 1)
        self.clock.advance(1)
        self.allowance.spend("a", 1_000)
        self.assertRaises(TooMany, self.allowance.spend, "a", 1_000)
        self.clock.advance(DAY_S)
        self.allowance.spend("a", 86_400_000)

    def test_each_account_has_its_own(self) -> None:
        self.allowance.spend("a", 86_400_000)
        self.allowance.spend("b", 86_400_000)

    def test_a_short_write_counts_what_its_rows_take(self) -> None:
        allowance = Allowance(3 * LEAST, self.clock.seconds)
        for _ in range(3):
            allowance.spend("a", 1)
        self.assertRaises(TooMany, allowance.spend, "a", 1)

    def test_more_than_a_day_at_once_takes_the_whole_day(self) -> None:
        self.allowance.spend("a", 99_999_999)
        self.assertRaises(TooMany, self.allowance.spend, "a", 1)

    def test_0_is_no_limit(self) -> None:
        allowance = Allowance(0, self.clock.seconds)
        for _ in range(3):
            allowance.spend("a", 10**12)
