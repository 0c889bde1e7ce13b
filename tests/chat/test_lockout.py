"""Who is held back, from when to when, and how many are remembered."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat import lockout
from svcserver.chat.lockout import Lockout
from tests.chat.town import account

ME, ADDRESS = account(1), "203.0.113.9"


class LockoutTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lockout = Lockout()

    def note(self, times: int, at: float) -> None:
        for _ in range(times):
            self.lockout.failed(ME, ADDRESS, at)

    def locked(self, at: float) -> tuple[bool, bool]:
        """The account from that address, and anybody from that address."""
        locked = self.lockout.locked
        return locked(ME.lower(), ADDRESS, at), locked("", ADDRESS, at)

    def test_ten_failures_in_ten_minutes_lock_account_and_address_for_ten(self) -> None:
        self.note(9, 0)
        self.assertEqual(self.locked(0), (False, False))
        self.note(1, 599.5)
        self.assertEqual(self.locked(600), (True, True))
        self.assertEqual(self.locked(1_199), (True, True))
        self.assertEqual(self.locked(1_199.5), (False, False))

    def test_ten_failures_in_more_than_ten_minutes_lock_nobody(self) -> None:
        self.note(9, 0)
        self.note(1, 600.5)
        self.assertEqual(self.locked(600.5), (False, False))

    def test_failures_never_lock_an_account_for_other_addresses_nor_let_it_wait(self) -> None:
        self.note(50, 0)
        for address in ("", "203.0.113.10", "2001:db8::1"):
            self.assertFalse(self.lockout.locked(ME, address, 1))
        self.assertFalse(self.lockout.waits(ME, 1))

    def test_a_direct_caller_counts_only_together_with_the_account(self) -> None:
        for _ in range(10):
            self.lockout.failed(ME, "", 0)
        self.assertTrue(self.lockout.locked(ME, "", 1))
        self.assertFalse(self.lockout.locked(account(2), "", 1))
        self.assertFalse(self.lockout.locked(ME, ADDRESS, 1))

    def test_an_ipv6_network_is_one_address_however_many_accounts_it_names(self) -> None:
        for number in range(10):
            self.lockout.failed(account(number), f"2001:db8:1:2::{number}", 0)
        self.assertTrue(self.lockout.locked(account(99), "2001:db8:1:2:ffff::1", 1))
        self.assertFalse(self.lockout.locked(account(99), "2001:db8:1:3::1", 1))

    def test_three_logins_without_a_session_in_ten_minutes_let_the_account_wait_one(self) -> None:
        for at in (0, 1, 599.5):
            self.assertFalse(self.lockout.waits(ME, at))
            self.lockout.never_bound(ME, at)
        self.assertTrue(self.lockout.waits(ME.lower(), 659))
        self.assertFalse(self.lockout.waits(ME, 659.5))
        self.assertEqual(self.locked(600), (False, False))

    def test_a_longer_hold_is_not_shortened(self) -> None:
        self.lockout.let_wait(ME, 30)
        self.lockout.let_wait(ME, 1)
        self.assertTrue(self.lockout.waits(ME, 89))

    def test_when_too_many_are_held_the_longest_held_is_forgotten(self) -> None:
        self.patch(lockout, "MAX_KEYS", 2)
        self.lockout = Lockout()
        for number in (1, 2, 3):
            self.lockout.let_wait(account(number), number)
        self.assertEqual(
            [self.lockout.waits(account(number), 5) for number in (1, 2, 3)], [False, True, True]
        )
