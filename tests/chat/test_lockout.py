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

    def held(self, at: float) -> tuple[bool, bool]:
        """The account, the address."""
        return self.lockout.held(ME.lower(), "", at), self.lockout.held("", ADDRESS, at)

    def test_ten_failures_in_ten_minutes_hold_account_and_address_for_ten(self) -> None:
        self.note(9, 0)
        self.assertEqual(self.held(0), (False, False))
        self.note(1, 599.5)
        self.assertEqual(self.held(600), (True, True))
        self.assertEqual(self.held(1_199), (True, True))
        self.assertEqual(self.held(1_199.5), (False, False))

    def test_ten_failures_in_more_than_ten_minutes_hold_nobody(self) -> None:
        self.note(9, 0)
        self.note(1, 600.5)
        self.assertEqual(self.held(600.5), (False, False))

    def test_three_logins_without_a_session_in_ten_minutes_hold_the_account_for_one(self) -> None:
        for at in (0, 1, 599.5):
            self.assertEqual(self.held(at), (False, False))
            self.lockout.never_bound(ME, at)
        self.assertEqual(self.held(659), (True, False))
        self.assertEqual(self.held(659.5), (False, False))

    def test_a_longer_hold_is_not_shortened(self) -> None:
        self.note(10, 0)
        self.lockout.hold(ME, 1)
        self.assertEqual(self.held(599), (True, True))

    def test_when_too_many_are_held_the_longest_held_is_forgotten(self) -> None:
        self.patch(lockout, "MAX_HELD", 2)
        for number in (1, 2, 3):
            self.lockout.hold(account(number), number)
        self.assertEqual(
            [self.lockout.held(account(number), "", 5) for number in (1, 2, 3)], [False, True, True]
        )
