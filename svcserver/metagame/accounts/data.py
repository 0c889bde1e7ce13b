"""The way to what one account has stored: its large work takes turns, its writes are counted.

The database's threads are everybody's. One account's eight large reads, asked for at once,
would keep everybody's log-in waiting until the last is done.
"""

from __future__ import annotations

from attrs import field, frozen

from svcserver.db.ledger import Ledger, T, Work
from svcserver.db.turns import Turns
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.allowance import Allowance

LARGE = 64 * 1024  # bytes of a write that takes its turn; most are under 45 KB


@frozen
class AccountData:
    """Reads and writes for one account each."""

    ledger: Ledger
    allowance: Allowance
    _turns: Turns = field(factory=Turns, repr=False)

    async def read(self, account_id: AccountId, work: Work[T]) -> T:
        """Run ``work`` on a snapshot; raises TooMany when too many reads of the account wait."""
        return await self._turns.run(account_id, lambda: self.ledger.read(work))

    async def write(self, account_id: AccountId, size: int, work: Work[T]) -> T:
        """Run ``work``, which keeps about ``size`` bytes; raises TooMany beyond a day's bytes."""
        self.allowance.spend(account_id, size)
        if size > LARGE:
            return await self._turns.run(
                account_id, lambda: self.ledger.write(work, turn=account_id)
            )
        return await self.ledger.write(work, turn=account_id)
