"""The launcher's routes for a player's own data, by account key. Ours: the game never asks them."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from svcserver.metagame.owner.passports import wire
from svcserver.metagame.owner.passports.acts import PassportActs
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@frozen
class PassportRoutes:
    """My hunter, my passport."""

    routes: ClassVar[Routes] = Routes(worded)
    acts: PassportActs

    @classmethod
    def of(cls, *given: Any) -> PassportRoutes:
        """With acts of what ``PassportActs.of`` takes."""
        return cls(PassportActs.of(*given))

    @routes.row(
        "GET", "/launcher/hunter", access=Access.ACCOUNT_KEY, reply=wire.HunterReply, quiet=True
    )
    async def hunter(self, call: Call) -> Answer:
        """Guild, mastery, hunt pass, saves and friends of the key's account."""
        return Answer(200, await self.acts.hunter(call.player), NO_STORE)

    @routes.row("GET", "/launcher/passport", access=Access.ACCOUNT_KEY, reply=wire.PassportReply)
    async def passport(self, call: Call) -> Answer:
        """The account's own data, signed by this host."""
        return Answer(200, await self.acts.passport(call.player), NO_STORE)
