"""The owner's routes to list saves and roll back. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.belongings.savehistory.acts import SaveHistoryActs
from svcserver.metagame.belongings.savehistory.wire import (
    HistoryReply,
    LoadoutRolledBack,
    RollbackWish,
    RolledBack,
    show,
    show_loadout,
    show_rolled_back,
)
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Feature, bare


@frozen
class SaveHistoryRoutes:
    """The admins' routes that list saves and roll back to one of them."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.ADMIN_KEY, again=Again.NEVER)
    acts: SaveHistoryActs

    @routes.row(
        "GET",
        "/svc/api/SaveHistory",
        role=Role.HELPER,
        reply=HistoryReply,
        query={"UserId": str, "CharacterId": str},
    )
    async def read(self, call: Call) -> Answer:
        """Return the saves of one character, or of all characters of an account, without data."""
        user_id, character_id = map(call.request.argument, ("UserId", "CharacterId"))
        if not user_id and not character_id:
            raise Malformed("UserId or CharacterId is missing")
        histories = await self.acts.read(user_id, character_id or None)
        return Answer(200, {"Characters": [show(history) for history in histories]})

    @routes.row("POST", "/svc/api/RollbackCharacter", body=RollbackWish, reply=RolledBack)
    async def roll_back(self, call: Call[RollbackWish]) -> Answer:
        """Make an old version of a character the newest."""
        name, version = call.body.character_id, call.body.version
        entry = by_staff(call, "roll back", name)
        before, after = await self.acts.roll_back(entry, name, version)
        return Answer(200, show_rolled_back(name, version, before, after))

    @routes.row("POST", "/svc/api/RollbackLoadout", body=RollbackWish, reply=LoadoutRolledBack)
    async def roll_back_loadout(self, call: Call[RollbackWish]) -> Answer:
        """Make an old version of a character's loadouts the newest."""
        name, version = call.body.character_id, call.body.version
        entry = by_staff(call, "roll back loadout", name)
        after = await self.acts.roll_back_loadout(entry, name, version)
        return Answer(200, show_loadout(name, version, after))


def savehistory(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of save histories."""
    yield SaveHistoryRoutes(SaveHistoryActs(parts.ledger, parts.wall_clock, parts.audit))
