"""Balances, read in one transaction each."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.metagame.belongings.currency.rules import Sheet, load
from svcserver.metagame.belongings.currency.store import Balance, balance_reader, notes_alone


@frozen
class CurrencyActs:
    """The sheet over what is held."""

    sheet: Sheet
    kept: Callable[[Connection, AccountId], Balance]
    ledger: Ledger

    @classmethod
    def of(cls, ledger: Ledger, *, from_inventory: bool) -> CurrencyActs:
        """With the sheet of the data file; raises BadData."""
        sheet = load()
        kept = balance_reader(sheet.spellings) if from_inventory else notes_alone
        return cls(sheet, kept, ledger)

    async def balance(self, me: AccountId) -> dict[str, int]:
        """The whole sheet."""
        return self.sheet.filled(*await self.ledger.read(lambda tx: self.kept(tx, me)))

    async def reconciled(self, me: AccountId) -> dict[str, int]:
        """The main currency in both spellings."""
        return self.sheet.reconciled(*await self.ledger.read(lambda tx: self.kept(tx, me)))
