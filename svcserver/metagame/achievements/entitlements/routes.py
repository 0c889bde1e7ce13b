"""The entitlement routes. Spec: 1 §4 Progression, hunt pass, entitlements."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.achievements.entitlements import wire
from svcserver.metagame.achievements.entitlements.acts import EntitlementActs
from svcserver.metagame.achievements.entitlements.wire import EntitlementWish, Listed
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare


@frozen
class EntitlementRoutes:
    """List, grant and revoke entitlements of an account."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: Settings
    acts: EntitlementActs
    acting: Acting

    @routes.row("GET", "/entitlementsv2", reply=Listed)
    async def read(self, call: Call) -> Answer:
        """Entitlements of the token's account; a game server must forward the player's token."""
        account = call.caller.account
        if account is None or not self.settings.real_progression(account):
            return enveloped([])
        return Answer(200, wire.show(await self.acts.listed(account)))

    @routes.row(
        "POST",
        "/entitlementv2/<user_id>",
        game_server=True,
        body=Late[EntitlementWish],
        reply=Listed,
        again=Again.NATURAL,
    )
    async def grant(self, call: Call[Late[EntitlementWish]], user_id: str) -> Answer:
        """Grant an entitlement to the account; answered with all that it has."""
        if not self.settings.real_progression(user_id):
            return enveloped([])
        entry = recorded.entry(self.acting, call, user_id, wire.show)
        return Answer(200, wire.show(await self.acts.grant(entry, call.body)))

    @routes.row(
        "DELETE",
        "/entitlement/<user_id>/<entitlement>",
        real_only=True,
        game_server=True,
        reply=Empty,
        again=Again.NATURAL,
    )
    async def revoke(self, call: Call, user_id: str, entitlement: str) -> Answer:
        """Take an entitlement from the account; 200 also where it has none."""
        entry = recorded.entry(self.acting, call, user_id, recorded.nothing)
        await self.acts.revoke(entry, entitlement)
        return Answer(200, EMPTY_OBJECT)
