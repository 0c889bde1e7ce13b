"""The quota of bytes that may be written for an account in a day (ACCOUNT_BYTES_A_DAY)."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define, field

from svcserver.kernel.ids import AccountId
from svcserver.kernel.rates import Rate, TokenBuckets
from svcserver.kernel.refusals import TooMany

LEAST = 512  # bytes that a write counts at least, since its rows take about that much
MINUTES_A_DAY = 1440


@define
class Allowance:
    """A token bucket of a day's bytes per account; 0: no limit. ``wall_clock`` gives epoch seconds.

    Kept in memory: a restart, which no player can cause, refills it.
    """

    bytes_a_day: int
    wall_clock: Callable[[], float]
    _buckets: TokenBuckets = field(init=False)

    def __attrs_post_init__(self) -> None:
        most = max(self.bytes_a_day, 1)
        self._buckets = TokenBuckets(Rate(most, most / MINUTES_A_DAY))

    def spend(self, account_id: AccountId, size: int) -> None:
        """Count a write of ``size`` bytes; raises TooMany when it is more than is left."""
        if not self.bytes_a_day:
            return
        wait = self._buckets.take(account_id, self.wall_clock(), max(size, LEAST))
        if wait:
            raise TooMany("this account has stored enough for now", retry_after_s=math.ceil(wait))
