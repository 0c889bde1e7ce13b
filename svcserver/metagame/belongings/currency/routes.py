"""Balance and reconcile. Spec: 1 §4 Characters, inventory, currency."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.metagame.belongings.currency.acts import CurrencyActs
from svcserver.metagame.belongings.currency.wire import ReconcileReply, show_reconciled
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, bare


@frozen
class CurrencyRoutes:
    """The balance of an account."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: CurrencyActs

    @routes.row("GET", "/balance", reply=dict[str, int])
    async def balance(self, call: Call) -> Answer:
        """The 52 keys, always all and always in the same order."""
        return Answer(200, await self.acts.balance(call.player))

    @routes.row("POST", "/reconcile", reply=ReconcileReply)
    async def reconcile(self, call: Call) -> Answer:
        """The main currency in both spellings; the body is ignored."""
        return Answer(200, show_reconciled(await self.acts.reconciled(call.player)))
