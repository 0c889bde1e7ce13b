"""Who is held back at login, and for how long. Spec: 2 §4 Chat, §8."""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field

from svcserver.kernel.ids import AccountId
from svcserver.kernel.rates import Windows

FAILURES = 10
FAILURE_WINDOW_S = 600.0
FAILURE_HOLD_S = 600.0
NEVER_BOUND = 3
HOLD_S = 60.0
MAX_HELD = 65_536


@define
class Lockout:
    """Failed logins per account and per forwarded address; ``address`` "" is not counted."""

    _failures: Windows = field(factory=lambda: Windows(FAILURES, FAILURE_WINDOW_S), init=False)
    _unbound: Windows = field(factory=lambda: Windows(NEVER_BOUND, FAILURE_WINDOW_S), init=False)
    _until: OrderedDict[str, float] = field(factory=OrderedDict, init=False)

    def held(self, account: AccountId, address: str, now: float) -> bool:
        """Whether a login of that account or from that address must wait."""
        return any(self._until.get(key, now) > now for key in _keys(account, address))

    def failed(self, account: AccountId, address: str, now: float) -> None:
        """Count a failed login."""
        for key in _keys(account, address):
            self._failures.note(key, now)
            if self._failures.full(key, now):
                self._hold(key, now + FAILURE_HOLD_S)

    def never_bound(self, account: AccountId, now: float) -> None:
        """Count a login whose connection ended without a session."""
        key = f"account {account.lower()}"
        self._unbound.note(key, now)
        if self._unbound.full(key, now):
            self.hold(account, now)

    def hold(self, account: AccountId, now: float) -> None:
        """Hold the account for a minute after its session was ended for cause."""
        self._hold(f"account {account.lower()}", now + HOLD_S)

    def _hold(self, key: str, until: float) -> None:
        self._until[key] = max(until, self._until.pop(key, until))
        while len(self._until) > MAX_HELD:
            self._until.popitem(last=False)


def _keys(account: AccountId, address: str) -> list[str]:
    keys = [f"account {account.lower()}"] if account else []
    return [*keys, f"address {address}"] if address else keys
