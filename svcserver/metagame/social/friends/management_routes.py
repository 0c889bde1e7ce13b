"""``POST /svc/api/Friends``: friend requests from the launcher or the owner. Spec: 2 §4, §7."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.metagame.accounts.behalf import Behalf
from svcserver.metagame.accounts.wire import BehalfWish
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.social.friends import wire
from svcserver.metagame.social.friends.acts import FriendActs
from svcserver.web.routes import Answer


@frozen
class FriendManagementRoutes:
    """Sends or accepts a friend request, with the same checks as the game's routes."""

    routes: ClassVar[Routes] = Routes(worded)
    behalf: Behalf
    acts: FriendActs

    @routes.row(
        "POST",
        "/svc/api/Friends",
        access=Access.ACCOUNT_KEY,
        body=BehalfWish,
        reply=wire.FriendsReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def request_by_name(self, call: Call[BehalfWish]) -> Answer:
        """Send a friend request by user name; an admin may send it for another (``From``)."""
        pair, result = await self.behalf.act_for(
            call,
            call.body,
            "friend request for",
            lambda pair: self.acts.request(pair.sender.id, pair.target.id),
        )
        reply: wire.FriendsReply = {
            "From": pair.sender.username,
            "To": pair.target.username,
            "Result": result.value,
        }
        return Answer(200, reply)
