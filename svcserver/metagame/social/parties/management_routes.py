"""``POST /svc/api/PartyInvite``: party invites from the launcher or the owner. Spec: 2 §4, §7."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.metagame.accounts.behalf import Behalf, Pair
from svcserver.metagame.accounts.wire import BehalfWish
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, refused_as, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.social.parties import wire
from svcserver.metagame.social.parties.acts import PartyActs
from svcserver.web.routes import Answer


@frozen
class PartyManagementRoutes:
    """Invites into the key owner's own party, with the same checks as in the game."""

    routes: ClassVar[Routes] = Routes(worded)
    behalf: Behalf
    acts: PartyActs

    @routes.row(
        "POST",
        "/svc/api/PartyInvite",
        access=Access.ACCOUNT_KEY,
        body=BehalfWish,
        reply=wire.PartyInviteReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def invite_by_name(self, call: Call[BehalfWish]) -> Answer:
        """Invite to a party by user name, checked as in the game."""
        pair, _ = await self.behalf.act_for(call, call.body, "party invite for", self._invite)
        reply: wire.PartyInviteReply = {"From": pair.sender.username, "To": pair.target.username}
        return Answer(200, reply)

    async def _invite(self, pair: Pair) -> None:
        with refused_as("party_invite_refused"):
            await self.acts.invite(pair.sender.id, pair.target.id)
