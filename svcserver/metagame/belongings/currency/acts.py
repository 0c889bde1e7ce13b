"""Reads of balances, one transaction each."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.metagame.belongings.currency.catalogue import load
from svcserver.metagame.belongings.currency.rules import Currencies
from svcserver.metagame.belongings.currency.store import Balance, balance_reader, notes_alone


@frozen
class CurrencyActs:
    """Joins the fixed values with what an account holds; ``kept`` reads the latter."""

    currencies: Currencies
    kept: Callable[[Connection, AccountId], Balance]
    ledger: Ledger

    @classmethod
    def of(cls, ledger: Ledger, *, from_inventory: bool) -> CurrencyActs:
        """``from_inventory``: the setting BALANCE_FROM_INVENTORY. Raises BadData."""
        currencies = load()
        kept = balance_reader(currencies.spellings) if from_inventory else notes_alone
        return cls(currencies, kept, ledger)

    async def balance(self, me: AccountId) -> dict[str, int]:
        """The balance in all currencies, by key."""
        return self.currencies.filled(*await self.ledger.read(lambda tx: self.kept(tx, me)))

    async def reconciled(self, me: AccountId) -> dict[str, int]:
        """The main currency in both spellings."""
        return self.currencies.reconciled(*await self.ledger.read(lambda tx: self.kept(tx, me)))
