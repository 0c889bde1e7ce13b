"""Lockout after failed logins, and the wait of an account. Spec: 2 §4 Chat, §8.

Anybody can fail in the name of any account, so failures never keep a valid token out: they
only change what a login that fails again is told. An account must wait a minute only for
what its own logged-in sessions did.
"""

from __future__ import annotations

from attrs import frozen

from svcserver.board.board import Sheet
from svcserver.board.kinds import Kind
from svcserver.board.quota import MOST, Quota
from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of

WINDOW_S = 600.0
LOCKOUT_S = 600.0
WAIT_S = 60.0
FAILURES = Quota.of("chat_failures", 10, WINDOW_S)
NEVER_BOUND = Quota.of("chat_never_bound", 3, WINDOW_S)
LOCKED = Kind("chat_locked", float, lives_s=LOCKOUT_S, most=MOST)
WAITING = Kind("chat_waiting", float, lives_s=WAIT_S, most=MOST)


@frozen
class Lockout:
    """Counts failures on an open sheet, by account and address together, and by address alone.

    An address is the forwarded one, for IPv6 its /64; that of a direct caller is "" and
    counts only together with an account.
    """

    sheet: Sheet

    def locked(self, account: AccountId, address: str) -> bool:
        """Whether the next failing login is refused without a reason, and not counted."""
        return any(self.sheet.get(LOCKED, key) is not None for key in _keys(account, address))

    def failed(self, account: AccountId, address: str) -> None:
        """Count a failed login; the tenth within ten minutes locks."""
        for key in _keys(account, address):
            FAILURES.take(self.sheet, key)
            if FAILURES.is_full(self.sheet, key):
                self.sheet.put(LOCKED, key, self.sheet.now)

    def waits(self, account: AccountId) -> bool:
        """Whether the account must wait, even with a valid token."""
        return self.sheet.get(WAITING, account.lower()) is not None

    def never_bound(self, account: AccountId) -> None:
        """Count a login whose connection ended without a session."""
        key = account.lower()
        NEVER_BOUND.take(self.sheet, key)
        if NEVER_BOUND.is_full(self.sheet, key):
            self.let_wait(account)

    def let_wait(self, account: AccountId) -> None:
        """Make the account wait for ``WAIT_S``, after one of its sessions was ended for abuse."""
        self.sheet.put(WAITING, account.lower(), self.sheet.now)


def _keys(account: AccountId, address: str) -> list[str]:
    network = network_of(address)
    keys = [f"{account.lower()} {network}"] if account else []
    return [*keys, network] if network else keys
