"""Balance and reconcile. Spec: 1 §4 Characters, inventory, currency."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.metagame.belongings.currency.acts import CurrencyActs
from svcserver.metagame.belongings.currency.wire import ReconcileReply, show_reconciled
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, bare


@frozen
class CurrencyRoutes:
    """The balance of an account."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: CurrencyActs

    @routes.row("GET", "/balance", reply=dict[str, int])
    async def balance(self, call: Call) -> Answer:
        """How much the caller has of each currency: all 52 that the client knows, always in one
        order.
        """
        return Answer(200, await self.acts.balance(call.player))

    @routes.row("POST", "/reconcile", reply=ReconcileReply, again=Again.NATURAL)
    async def reconcile(self, call: Call) -> Answer:
        """What the caller has of the main currency, by both of its names. The body is ignored."""
        return Answer(200, show_reconciled(await self.acts.reconciled(call.player)))
