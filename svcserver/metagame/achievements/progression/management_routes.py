"""The owner's routes for a player's progression. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import Entry
from svcserver.metagame.achievements.progression import wire
from svcserver.metagame.achievements.progression.management_acts import ManagementActs
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Needed, bare

T = TypeVar("T")


@frozen
class ProgressionManagementRoutes:
    """The owner's routes of progression: report, seed, grant and revoke."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.ADMIN_KEY, again=Again.NEVER)
    acts: ManagementActs
    acting: Acting

    @routes.row(
        "GET",
        "/svc/api/Progression",
        role=Role.HELPER,
        reply=wire.Report,
        query={"UserId": Needed(str)},
    )
    async def report(self, call: Call) -> Answer:
        """Tracks with the ranks they earn, objectives and entitlements of an account."""
        user_id = call.request.argument("UserId")
        if not user_id:
            raise Malformed("UserId is missing", code="bad_request")
        return Answer(200, wire.show_report(user_id, await self.acts.report(user_id)))

    @routes.row("POST", "/svc/api/SeedProgression", body=wire.SeedWish, reply=wire.Seeded)
    async def seed(self, call: Call[wire.SeedWish]) -> Answer:
        """Set all tracks of an account: to their end (``grandfather``) or to 0 (``fresh``)."""
        wish = call.body
        entry = self._entry(call, wire.show_seeded, "seed progression")
        return Answer(200, entry.show(await self.acts.seed(entry, wish.mode)))

    @routes.row(
        "POST", "/svc/api/GrantEntitlement", body=wire.GrantWish, reply=wire.EntitlementsHeld
    )
    async def grant_entitlement(self, call: Call[wire.GrantWish]) -> Answer:
        """Grant an account an entitlement, for ``Duration`` hours; for ever with 0 or without."""
        wish = call.body
        entry = self._entry(call, wire.show_held, "grant")
        return Answer(200, entry.show(await self.acts.grant(entry, wish)))

    @routes.row(
        "POST", "/svc/api/RevokeEntitlement", body=wire.RevokeWish, reply=wire.EntitlementRevoked
    )
    async def revoke_entitlement(self, call: Call[wire.RevokeWish]) -> Answer:
        """Take an entitlement from an account; ``Revoked`` tells whether it had it."""
        wish = call.body
        entry = self._entry(call, wire.show_revoked, "revoke")
        return Answer(200, entry.show(await self.acts.revoke(entry, wish.entitlement)))

    def _entry(self, call: Call[Any], show: Callable[[AccountId, T], Any], action: str) -> Entry[T]:
        """The event log's entry, whose reply begins with the account that the body names."""
        user_id = call.body.user_id
        return recorded.entry(self.acting, call, user_id, partial(show, user_id), action)
