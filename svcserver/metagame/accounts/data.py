"""Database access for one account's data: large work is queued per account, writes are counted.

All accounts share the database's threads: eight large reads of one account at once would
keep everybody's log-in waiting until the last is done.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from attrs import define, field, frozen

from svcserver.db.ledger import Across, Ledger, OneAccount, T, Work
from svcserver.db.turns import Turns
from svcserver.kernel.ids import AccountId
from svcserver.kernel.rates import Rate, TokenBuckets
from svcserver.kernel.refusals import TooMany

LARGE = 64 * 1024  # bytes from which on a write is queued; most are under 45 KB
LEAST = 512  # bytes that a write counts at least, since its rows take about that much
MINUTES_A_DAY = 1440


@define
class Allowance:
    """A token bucket of a day's bytes per account; 0: no limit. ``wall_clock``: epoch seconds.

    Kept in memory: a restart, which no player can cause, refills it.
    """

    bytes_a_day: int
    wall_clock: Callable[[], float]
    _buckets: TokenBuckets = field(init=False)

    def __attrs_post_init__(self) -> None:
        most = max(self.bytes_a_day, 1)
        self._buckets = TokenBuckets(Rate(most, most / MINUTES_A_DAY))

    def spend(self, account_id: AccountId, size: int) -> None:
        """Count a write of ``size`` bytes; raises TooMany if it exceeds the rest."""
        if not self.bytes_a_day:
            return
        wait = self._buckets.take(account_id, self.wall_clock(), max(size, LEAST))
        if wait:
            raise TooMany("this account has stored enough for now", retry_after_s=math.ceil(wait))


@frozen
class AccountData:
    """Runs reads and writes, each for one account."""

    ledger: Ledger
    allowance: Allowance
    _turns: Turns = field(factory=Turns, repr=False)

    async def read(self, account_id: AccountId, work: Work[T]) -> T:
        """Run ``work`` on a snapshot; raises TooMany when too many reads of the account wait."""
        return await self._turns.run(account_id, lambda: self.ledger.read(work))

    def write(
        self, account_id: AccountId, size: int, work: Work[T], across: Across | None = None
    ) -> Awaitable[T]:
        """Run ``work``, which stores about ``size`` bytes; raises TooMany beyond a day's quota.

        ``ACROSS`` where it judges by more than what is the account's own.
        """
        self.allowance.spend(account_id, size)
        scope = OneAccount(account_id) if across is None else Across(account_id)
        if size > LARGE:
            return self._turns.run(account_id, lambda: self.ledger.write(work, scope))
        return self.ledger.write(work, scope)
