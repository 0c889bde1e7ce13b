"""Lockout after failed logins, and the wait of an account. Spec: 2 §4 Chat, §8.

Anybody can fail in the name of any account, so failures never keep a valid token out: they
only change what a login that fails again is told. An account must wait a minute only for
what its own logged-in sessions did.
"""

from __future__ import annotations

from attrs import define, field
from cachetools import LRUCache

from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of
from svcserver.kernel.rates import Windows

FAILURES = 10
FAILURE_WINDOW_S = 600.0
LOCKOUT_S = 600.0
NEVER_BOUND = 3
WAIT_S = 60.0
MAX_KEYS = 65_536


@define
class _Until:
    """Keys with an end time; the longest unused are forgotten first."""

    _until: LRUCache[str, float] = field(factory=lambda: LRUCache(MAX_KEYS), init=False)

    def lasts(self, key: str, now: float) -> bool:
        return self._until.get(key, now) > now

    def start(self, key: str, until: float) -> None:
        self._until[key] = max(until, self._until.get(key, until))


@define
class Lockout:
    """Counts failures by account and address together, and by address alone.

    An address is the forwarded one, for IPv6 its /64; that of a direct caller is "" and
    counts only together with an account. All methods take ``now`` in seconds.
    """

    _failures: Windows = field(factory=lambda: Windows(FAILURES, FAILURE_WINDOW_S), init=False)
    _unbound: Windows = field(factory=lambda: Windows(NEVER_BOUND, FAILURE_WINDOW_S), init=False)
    _locked: _Until = field(factory=_Until, init=False)
    _waiting: _Until = field(factory=_Until, init=False)

    def locked(self, account: AccountId, address: str, now: float) -> bool:
        """Whether the next failing login is refused without a reason, and not counted."""
        return any(self._locked.lasts(key, now) for key in _keys(account, address))

    def failed(self, account: AccountId, address: str, now: float) -> None:
        for key in _keys(account, address):
            self._failures.note(key, now)
            if self._failures.full(key, now):
                self._locked.start(key, now + LOCKOUT_S)

    def waits(self, account: AccountId, now: float) -> bool:
        """Whether the account must wait, even with a valid token."""
        return self._waiting.lasts(account.lower(), now)

    def never_bound(self, account: AccountId, now: float) -> None:
        """Count a login whose connection ended without a session."""
        key = account.lower()
        self._unbound.note(key, now)
        if self._unbound.full(key, now):
            self.let_wait(account, now)

    def let_wait(self, account: AccountId, now: float) -> None:
        """Make the account wait for ``WAIT_S``, after one of its sessions was ended for abuse."""
        self._waiting.start(account.lower(), now + WAIT_S)


def _keys(account: AccountId, address: str) -> list[str]:
    network = network_of(address)
    keys = [f"{account.lower()} {network}"] if account else []
    return [*keys, network] if network else keys
