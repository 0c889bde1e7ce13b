"""Database reads and writes for one account's data, with a daily quota for writes.

Reads and large writes wait in a queue per account, so that no account can occupy all threads.
"""

import math
from collections.abc import Awaitable, Callable

from attrs import define, field, frozen

from svcserver.db.ledger import Across, Ledger, OneAccount, T, Work
from svcserver.db.turns import Turns
from svcserver.kernel.ids import AccountId
from svcserver.kernel.rates import Rate, TokenBuckets
from svcserver.kernel.refusals import TooMany

LARGE = 64 * 1024  # bytes; larger writes are queued; most are under 45 KB
LEAST = 512  # minimum bytes counted per write: its rows take about that much
MINUTES_A_DAY = 1440


@define
class Allowance:
    """A daily byte quota per account, as a token bucket; 0 means no limit.

    ``wall_clock`` returns epoch seconds.

    The quota is kept in memory, so a restart or a change of the limit refills it. No player can
    cause a restart or such a change.
    """

    bytes_a_day: Callable[[], int]
    wall_clock: Callable[[], float]
    _limit: int = field(default=0, init=False)
    _buckets: TokenBuckets = field(init=False)

    def spend(self, account_id: AccountId, size: int) -> None:
        """Count a write of ``size`` bytes; raises TooMany if it exceeds the remaining quota."""
        limit = self.bytes_a_day()
        if not limit:
            return
        if limit != self._limit:
            self._limit, self._buckets = limit, TokenBuckets(Rate(limit, limit / MINUTES_A_DAY))
        wait = self._buckets.take(account_id, self.wall_clock(), max(size, LEAST))
        if wait:
            raise TooMany(
                "this account has used up its storage quota for now", retry_after_s=math.ceil(wait)
            )


@frozen
class AccountData:
    """Runs database reads and writes, each for one account."""

    ledger: Ledger
    allowance: Allowance
    _turns: Turns = field(factory=Turns, repr=False)

    async def read_for_account(self, account_id: AccountId, work: Work[T]) -> T:
        """Run ``work`` on a snapshot; raises TooMany if the account has too many queued reads."""
        return await self._turns.run(account_id, lambda: self.ledger.read_snapshot(work))

    def write(
        self, account_id: AccountId, size: int, work: Work[T], across: Across | None = None
    ) -> Awaitable[T]:
        """Run ``work``, which stores about ``size`` bytes; raises TooMany above the daily quota.

        Pass ``ACROSS`` if ``work`` also depends on data of other accounts.
        """
        self.allowance.spend(account_id, size)
        scope = OneAccount(account_id) if across is None else Across(account_id)
        if size > LARGE:
            return self._turns.run(account_id, lambda: self.ledger.write(work, scope))
        return self.ledger.write(work, scope)
