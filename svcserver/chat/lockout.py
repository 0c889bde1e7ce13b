"""Whose failing logins are not worked on for a while, and which accounts wait. Spec: 2 §4 Chat, §8.

Anybody can fail in the name of anybody, so no number of failures keeps a valid token out:
they only change what a login that fails again is told. What makes an account wait for a
minute is what its own sessions did, which nobody else can bring about.
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
    """Keys that count until a time; the longest unused are forgotten first."""

    _until: LRUCache[str, float] = field(factory=lambda: LRUCache(MAX_KEYS), init=False)

    def lasts(self, key: str, now: float) -> bool:
        return self._until.get(key, now) > now

    def start(self, key: str, until: float) -> None:
        self._until[key] = max(until, self._until.get(key, until))


@define
class Lockout:
    """Failures count for account and address together, and for the address alone.

    An address is the forwarded one, an IPv6 one its /64; that of a direct caller is "" and
    counts only together with an account.
    """

    _failures: Windows = field(factory=lambda: Windows(FAILURES, FAILURE_WINDOW_S), init=False)
    _unbound: Windows = field(factory=lambda: Windows(NEVER_BOUND, FAILURE_WINDOW_S), init=False)
    _locked: _Until = field(factory=_Until, init=False)
    _waiting: _Until = field(factory=_Until, init=False)

    def locked(self, account: AccountId, address: str, now: float) -> bool:
        """Whether a login there that fails again is neither told why nor counted."""
        return any(self._locked.lasts(key, now) for key in _keys(account, address))

    def failed(self, account: AccountId, address: str, now: float) -> None:
        """Count a failed login."""
        for key in _keys(account, address):
            self._failures.note(key, now)
            if self._failures.full(key, now):
                self._locked.start(key, now + LOCKOUT_S)

    def waits(self, account: AccountId, now: float) -> bool:
        """Whether the account must wait, its valid token too."""
        return self._waiting.lasts(account.lower(), now)

    def never_bound(self, account: AccountId, now: float) -> None:
        """Count a login whose connection ended without a session."""
        key = account.lower()
        self._unbound.note(key, now)
        if self._unbound.full(key, now):
            self.let_wait(account, now)

    def let_wait(self, account: AccountId, now: float) -> None:
        """Let the account wait a minute after its session was ended for cause."""
        self._waiting.start(account.lower(), now + WAIT_S)


def _keys(account: AccountId, address: str) -> list[str]:
    network = network_of(address)
    keys = [f"{account.lower()} {network}"] if account else []
    return [*keys, network] if network else keys
