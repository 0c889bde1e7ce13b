"""``POST /svc/api/Friends``: friend requests from the launcher or the owner. Spec: 2 §4, §7."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from attrs import frozen

from svcserver.metagame.accounts import behalf
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.social.friends.book import FriendBook
from svcserver.web.routes import BAD_JSON, Access, Answer, Call, Routes, worded


class FriendsReply(TypedDict):
    """``Result``: requested, accepted, already_friends or already_requested."""

    From: str
    To: str
    Result: str


@frozen
class FriendManagement:
    """Sends a request or accepts theirs, with the same checks as in the game."""

    routes: ClassVar[Routes] = Routes(worded)
    directory: Directory
    book: FriendBook

    @routes.row(
        "POST",
        "/svc/api/Friends",
        access=Access.ACCOUNT_KEY,
        body=object,
        sends=behalf.BehalfWish,
        reply=FriendsReply,
        bad_json=BAD_JSON,
    )
    async def request(self, call: Call) -> Answer:
        """Body ``{Username, From?}``."""
        pair = await behalf.pair(call, self.directory)
        result = await self.book.request(pair.sender.id, pair.target.id)
        reply: FriendsReply = {
            "From": pair.sender.username,
            "To": pair.target.username,
            "Result": result.value,
        }
        return Answer(200, reply)
