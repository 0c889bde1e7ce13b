"""Friends and blocks as the client asks for them. Spec: 1 §4 Friends."""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

from attrs import frozen

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Forbidden
from svcserver.kernel.times import iso
from svcserver.metagame.social.friends import rules
from svcserver.metagame.social.friends.book import FriendBook
from svcserver.metagame.social.friends.rules import ACCEPTED, Friendship
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.web.routes import NO_CONTENT, Access, Answer, Call, Routes, bare

FRIENDS = "/friends/api/public/friends/<user_id>"
BLOCKLIST = "/friends/api/public/blocklist/<user_id>"


class FriendEntry(TypedDict):
    """One line of the friends list."""

    accountId: str
    status: str
    direction: str
    created: str


class BlockedReply(TypedDict):
    """Whom the caller has blocked."""

    blockedUsers: list[str]


class FriendSettings(TypedDict):
    """Who may ask: everybody."""

    acceptInvites: str


def _misc(settings: Any) -> bool:
    return bool(settings.misc_routes)


@frozen
class Friends:
    """The friends service's routes."""

    routes: ClassVar[Routes] = Routes(bare)
    ledger: Ledger
    book: FriendBook

    @routes.row(
        "GET",
        FRIENDS,
        access=Access.OPTIONAL_TOKEN,
        reply=list[FriendEntry],
        query=("includePending",),
        when=_misc,
        body_log=True,
    )
    async def friends(self, call: Call, user_id: str) -> Answer:
        """The caller's own list; anybody else's is empty."""
        me = call.caller.account
        if me is None or me != user_id:
            return Answer(200, [])
        pending = call.request.argument("includePending") == "true"
        found = await self.ledger.read(lambda tx: SqlFriends(tx).of(me))
        return Answer(200, [entry(one, me) for one in found if pending or one.status == ACCEPTED])

    @routes.row(
        "GET",
        BLOCKLIST,
        access=Access.OPTIONAL_TOKEN,
        reply=BlockedReply,
        when=_misc,
        body_log=True,
    )
    async def blocklist(self, call: Call, user_id: str) -> Answer:
        """Whom the caller has blocked."""
        me = call.caller.account
        if me is None or me != user_id:
            return Answer(200, {"blockedUsers": []})
        found = await self.ledger.read(lambda tx: SqlFriends(tx).blocks(me))
        return Answer(200, {"blockedUsers": found})

    @routes.row("POST", FRIENDS + "/<friend_id>", access=Access.PLAYER, body_log=True)
    async def request(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Ask, or accept."""
        await self.book.request(_own(call, user_id), rules.named(friend_id))
        return NO_CONTENT

    @routes.row("DELETE", FRIENDS + "/<friend_id>", access=Access.PLAYER, body_log=True)
    async def unfriend(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Unfriend, withdraw or decline; 204 also when there was nothing."""
        await self.book.unfriend(_own(call, user_id), rules.named(friend_id))
        return NO_CONTENT

    @routes.row("POST", BLOCKLIST + "/<friend_id>", access=Access.PLAYER, body_log=True)
    async def block(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Block; again changes nothing."""
        await self.book.block(_own(call, user_id), rules.named(friend_id))
        return NO_CONTENT

    @routes.row("PUT", BLOCKLIST + "/<friend_id>", access=Access.PLAYER, body_log=True)
    async def put_block(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """The same by its other method."""
        return await self.block(call, user_id, friend_id)

    @routes.row("DELETE", BLOCKLIST + "/<friend_id>", access=Access.PLAYER, body_log=True)
    async def unblock(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Unblock; 204 also when there was no block."""
        await self.book.unblock(_own(call, user_id), rules.named(friend_id))
        return NO_CONTENT

    @routes.row(
        "GET",
        "/friends/api/public/list/<namespace>/<user_id>/recentPlayers",
        access=Access.NONE,
        reply=list,
        when=_misc,
        body_log=True,
    )
    async def recent_players(self, call: Call, namespace: str, user_id: str) -> Answer:
        """Nobody keeps them."""
        return Answer(200, [])

    @routes.row(
        "GET",
        "/friends/api/v1/<user_id>/settings",
        access=Access.NONE,
        reply=FriendSettings,
        when=_misc,
        body_log=True,
    )
    async def settings(self, call: Call, user_id: str) -> Answer:
        """The same for everybody."""
        return Answer(200, {"acceptInvites": "public"})


def _own(call: Call, user_id: str) -> AccountId:
    if call.player != user_id:
        raise Forbidden("that is not your list")
    return call.player


def entry(friendship: Friendship, me: AccountId) -> FriendEntry:
    """A friendship as ``me`` sees it."""
    return {
        "accountId": rules.other_of(friendship, me),
        "status": friendship.status,
        "direction": rules.direction(friendship, me),
        "created": iso(friendship.created_at / 1000),
    }
