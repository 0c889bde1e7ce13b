"""The owner's routes for a player's progression. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.progression import wire
from svcserver.metagame.achievements.progression.management_acts import ManagementActs
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, bare


@frozen
class ProgressionManagement:
    """Report, seed, grant, revoke."""

    routes: ClassVar[Routes] = Routes(bare)
    acts: ManagementActs

    @routes.row(
        "GET",
        "/svc/api/Progression",
        access=Access.ADMIN_KEY,
        reply=wire.Report,
        query=("UserId",),
    )
    async def report(self, call: Call) -> Answer:
        """Tracks with the ranks they earn, objectives, entitlements. Writes nothing."""
        user_id = call.request.argument("UserId")
        if not user_id:
            raise Malformed("UserId is missing", code="bad_request")
        return Answer(200, await self.acts.report(user_id))

    @routes.row(
        "POST",
        "/svc/api/SeedProgression",
        access=Access.ADMIN_KEY,
        body=wire.SeedWish,
        reply=wire.Seeded,
    )
    async def seed(self, call: Call[wire.SeedWish]) -> Answer:
        """Set all tracks: ``grandfather`` to their end, ``fresh`` to 0."""
        return await self.acts.seed(call)

    @routes.row(
        "POST",
        "/svc/api/GrantEntitlement",
        access=Access.ADMIN_KEY,
        body=wire.GrantWish,
        reply=wire.EntitlementsHeld,
    )
    async def grant(self, call: Call[wire.GrantWish]) -> Answer:
        """Grant an entitlement for hours; 0 or absent for ever."""
        return await self.acts.grant(call)

    @routes.row(
        "POST",
        "/svc/api/RevokeEntitlement",
        access=Access.ADMIN_KEY,
        body=wire.RevokeWish,
        reply=wire.EntitlementRevoked,
    )
    async def revoke(self, call: Call[wire.RevokeWish]) -> Answer:
        """Revoke an entitlement; ``Revoked`` tells whether it was in force."""
        return await self.acts.revoke(call)
