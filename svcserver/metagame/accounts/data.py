"""Database access for one account's data: large work is queued per account, writes are counted.

All accounts share the database's threads: eight large reads of one account at once would
keep everybody's log-in waiting until the last is done.
"""

from __future__ import annotations

from collections.abc import Awaitable

from attrs import field, frozen

from svcserver.db.ledger import Across, Ledger, OneAccount, T, Work
from svcserver.db.turns import Turns
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.allowance import Allowance

LARGE = 64 * 1024  # bytes from which on a write is queued; most are under 45 KB


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
