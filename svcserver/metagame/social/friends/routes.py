"""The game client's routes for friends and blocks. Spec: 1 §4 Friends."""

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.metagame.access.acting import own, own_or_none
from svcserver.metagame.accounts.behalf import Behalf
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.wire import BehalfRequest
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MISC_ROUTES
from svcserver.metagame.social.friends import rules, wire
from svcserver.metagame.social.friends.acts import FriendActs
from svcserver.metagame.social.friends.store import Also
from svcserver.web.routes import NO_CONTENT, Answer, Feature, NoContent, bare

FRIENDS = "/friends/api/public/friends/<user_id>"
BLOCKLIST = "/friends/api/public/blocklist/<user_id>"


@frozen
class FriendRoutes:
    """The routes for the game client's friends list."""

    routes: ClassVar[Routes] = Routes(
        bare, body_log=True, access=Access.PLAYER, reply=NoContent, again=Again.STORED
    )
    acts: FriendActs

    @routes.row(
        "GET",
        FRIENDS,
        access=Access.OPTIONAL_TOKEN,
        reply=list[wire.FriendEntry],
        query={"includePending": bool},
        when=MISC_ROUTES,
    )
    async def listed(self, call: Call, user_id: str) -> Answer:
        """List the caller's friends; the list is empty if the path names another account."""
        me = own_or_none(call, user_id)
        if me is None:
            return Answer(200, [])
        pending = call.request.argument("includePending") == "true"
        return Answer(200, wire.show_friends(await self.acts.friends(me, pending=pending), me))

    @routes.row(
        "GET", BLOCKLIST, access=Access.OPTIONAL_TOKEN, reply=wire.BlockedReply, when=MISC_ROUTES
    )
    async def blocklist(self, call: Call, user_id: str) -> Answer:
        """List the accounts that the caller has blocked."""
        me = own_or_none(call, user_id)
        if me is None:
            return Answer(200, {"blockedUsers": []})
        return Answer(200, {"blockedUsers": await self.acts.blocks(me)})

    @routes.row("POST", FRIENDS + "/<friend_id>")
    async def request(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Send a friend request; if the other player has already sent one, accept it."""
        me, friend = own(call, user_id), rules.named(friend_id)
        await self.acts.request(me, friend, attempt=call.attempt)
        return NO_CONTENT

    @routes.row("DELETE", FRIENDS + "/<friend_id>")
    async def unfriend(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """End a friendship, or withdraw or decline a friend request.

        The reply is 204 even if there is no friendship and no request.
        """
        me, friend = own(call, user_id), rules.named(friend_id)
        await self.acts.unfriend(me, friend, attempt=call.attempt)
        return NO_CONTENT

    @routes.row("POST", BLOCKLIST + "/<friend_id>")
    async def block(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Block an account and end the friendship with it; a repeated request changes nothing."""
        me, target = own(call, user_id), rules.named(friend_id)
        await self.acts.block(me, target, attempt=call.attempt)
        return NO_CONTENT

    @routes.row("PUT", BLOCKLIST + "/<friend_id>")
    async def put_block(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Block an account, just as the POST route does."""
        return await self.block(call, user_id, friend_id)

    @routes.row("DELETE", BLOCKLIST + "/<friend_id>")
    async def unblock(self, call: Call, user_id: str, friend_id: str) -> Answer:
        """Unblock an account; the reply is 204 even if it is not blocked."""
        await self.acts.unblock(own(call, user_id), rules.named(friend_id), attempt=call.attempt)
        return NO_CONTENT

    @routes.row(
        "GET",
        "/friends/api/public/list/<namespace>/<user_id>/recentPlayers",
        access=Access.NONE,
        reply=list[Empty],
        when=MISC_ROUTES,
    )
    async def recent_players(self, call: Call, namespace: str, user_id: str) -> Answer:
        """Return an empty list, because this server does not store recently met players."""
        return Answer(200, [])

    @routes.row(
        "GET",
        "/friends/api/v1/<user_id>/settings",
        access=Access.NONE,
        reply=wire.FriendSettings,
        when=MISC_ROUTES,
    )
    async def settings(self, call: Call, user_id: str) -> Answer:
        """Show the friend settings, which are the same for all players."""
        return Answer(200, {"acceptInvites": "public"})


@frozen
class FriendManagementRoutes:
    """The route for friend requests by username, with the same checks as in the game."""

    routes: ClassVar[Routes] = Routes(worded)
    behalf: Behalf
    acts: FriendActs

    @routes.row(
        "POST",
        "/svc/api/Friends",
        access=Access.ACCOUNT_KEY,
        body=BehalfRequest,
        reply=wire.FriendsReply,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def request_by_name(self, call: Call[BehalfRequest]) -> Answer:
        """Send a friend request by username; an admin may name another sender (``From``)."""
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


def friends(
    parts: Parts, *, also_block: tuple[Also, ...], also_unfriend: tuple[Also, ...]
) -> Iterator[Feature]:
    """Yield the routes with which players and staff manage friends and blocks."""
    news = parts.news
    acts = FriendActs(
        parts.data,
        parts.board,
        parts.wall_clock,
        news.blocked,
        news.unfriended,
        news.friend_accepted,
        also_block,
        also_unfriend,
    )
    yield FriendRoutes(acts)
    yield FriendManagementRoutes(parts.behalf, acts)
