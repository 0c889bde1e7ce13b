"""Rate limit of wrong admin keys; a valid one is never counted or refused here.

An unknown key counts for its address, the key of an account that is no admin for that
account at that address, so that neither uses up the tries of another.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of
from svcserver.kernel.rates import Windows
from svcserver.kernel.refusals import Refusal, TooMany

log = Logger()

TRIES = 60
TRIES_S = 60.0


@define
class Attempts:
    """Counts wrong admin keys, and decides how the next one is refused."""

    now: Callable[[], float]
    counters: Counters = field(factory=Counters)
    _tries: Windows = field(factory=lambda: Windows(TRIES, TRIES_S), init=False)

    def refused(self, usual: Refusal, address: str, account: AccountId = "") -> Refusal:
        """The usual refusal of a wrong admin key, or TooMany after too many of them."""
        self.counters.add(Counted.FAILED_LOGINS, "admin_key")
        now, key = self.now(), f"{network_of(address)} {account}"
        wait = self._tries.wait(key, now)
        if wait > 0:
            return TooMany(retry_after_s=max(1, round(wait)))
        self._tries.note(key, now)
        if self._tries.full(key, now):
            log.warn(
                "{count} wrong admin keys in a minute from {address}; more are answered 429",
                count=TRIES,
                address=address,
                account=account,
            )
        return usual
