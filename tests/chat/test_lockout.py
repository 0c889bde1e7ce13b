"""The start and end of lockouts and delays after failed log-ins."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.admission import LOCKED, Lockout
from tests.chat.fixture import account
from tests.support.live import TestBoard

ME, ADDRESS = account(1), "203.0.113.9"


class LockoutTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.live = TestBoard()

    def fail(self, who: str, address: str, at: float, times: int = 1) -> None:
        for _ in range(times):
            self.live.do(lambda transaction: Lockout(transaction).failed(who, address), at)

    def note(self, times: int, at: float) -> None:
        self.fail(ME, ADDRESS, at, times)

    def locks(self, who: str, address: str, at: float) -> bool:
        return self.live.do(lambda transaction: Lockout(transaction).locked(who, address), at)

    def locked(self, at: float) -> tuple[bool, bool]:
        """Return whether the address is locked out of one account, and whether of all accounts."""
        return self.locks(ME.lower(), ADDRESS, at), self.locks("", ADDRESS, at)

    def waits(self, who: str, at: float) -> bool:
        return self.live.do(lambda transaction: Lockout(transaction).waits(who), at)

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

    def test_failures_never_lock_an_account_for_other_addresses(self) -> None:
        self.note(50, 0)
        for address in ("", "203.0.113.10", "2001:db8::1"):
            self.assertFalse(self.locks(ME, address, 1))
        self.assertFalse(self.waits(ME, 1))

    def test_without_an_account_the_address_alone_counts(self) -> None:
        self.fail("", ADDRESS, 0, times=10)
        self.assertEqual(self.locked(1), (True, True))
        with_none = self.live.do(lambda transaction: transaction.get(LOCKED, f" {ADDRESS}"), 1)
        self.assertIsNone(with_none)

    def test_a_direct_caller_counts_only_together_with_the_account(self) -> None:
        self.fail(ME, "", 0, times=10)
        self.assertTrue(self.locks(ME, "", 1))
        self.assertFalse(self.locks(account(2), "", 1))
        self.assertFalse(self.locks(ME, ADDRESS, 1))

    def test_an_ipv6_network_counts_as_one_address(self) -> None:
        for number in range(10):
            self.fail(account(number), f"2001:db8:1:2::{number}", 0)
        self.assertTrue(self.locks(account(99), "2001:db8:1:2:ffff::1", 1))
        self.assertFalse(self.locks(account(99), "2001:db8:1:3::1", 1))

    def test_three_logins_without_a_bind_make_the_account_wait(self) -> None:
        for at in (0, 1, 599.5):
            self.assertFalse(self.waits(ME, at))
            self.live.do(lambda transaction: Lockout(transaction).never_bound(ME), at)
        self.assertTrue(self.waits(ME.lower(), 659))
        self.assertFalse(self.waits(ME, 659.5))
        self.assertEqual(self.locked(600), (False, False))
