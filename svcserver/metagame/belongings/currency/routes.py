"""Balance and reconcile. Spec: 1 §4 Characters, inventory, currency."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.metagame.belongings.currency.rules import Sheet, load
from svcserver.metagame.belongings.currency.store import Balance, balance_reader, notes_alone
from svcserver.web.routes import Access, Answer, Call, Routes, bare


class ReconcileReply(TypedDict):
    """The main currency, and the word to read the inventory again."""

    balances: dict[str, int]
    refreshInventory: bool


@frozen
class Currency:
    """What an account can spend."""

    routes: ClassVar[Routes] = Routes(bare)
    sheet: Sheet
    read: Callable[[Connection, AccountId], Balance]
    ledger: Ledger

    @classmethod
    def of(cls, ledger: Ledger, *, from_inventory: bool) -> Currency:
        """With the sheet of the data file; raises BadData."""
        sheet = load()
        read = balance_reader(sheet.spellings) if from_inventory else notes_alone
        return cls(sheet, read, ledger)

    @routes.row("GET", "/balance", access=Access.TOKEN, reply=dict[str, int])
    async def balance(self, call: Call) -> Answer:
        """The 52 keys, always all and always in the same order."""
        account_id, read = call.player, self.read
        notes, stacks = await self.ledger.read(lambda tx: read(tx, account_id))
        return Answer(200, self.sheet.filled(notes, stacks))

    @routes.row("POST", "/reconcile", access=Access.TOKEN, reply=ReconcileReply)
    async def reconcile(self, call: Call) -> Answer:
        """The main currency in both spellings; the body is ignored."""
        account_id, read = call.player, self.read
        notes, stacks = await self.ledger.read(lambda tx: read(tx, account_id))
        balances = self.sheet.reconciled(notes, stacks)
        return Answer(200, {"balances": balances, "refreshInventory": True})
