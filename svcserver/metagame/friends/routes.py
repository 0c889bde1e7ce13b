"""Friends and blocks as the client asks for them. Spec: 1 §4 Friends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.quota import Quota
from svcserver.kernel.refusals import Forbidden
from svcserver.kernel.signals import Blocked, FriendAccepted, Signal, Unfriended
from svcserver.kernel.times import iso
from svcserver.metagame.friends import rules
from svcserver.metagame.friends.rules import ACCEPTED, Friendship, Result
from svcserver.metagame.friends.store import Also, SqlFriends
from svcserver.web.routes import NO_CONTENT, Access, Answer, Call, Routes, bare

FRIENDS = "/friends/api/public/friends/<user_id>"
BLOCKLIST = "/friends/api/public/blocklist/<user_id>"


class FriendEntry(TypedDict):
    """One line of the friends list."""

    accountId: str
    status: str
    direction: str
    created: str


def _misc(settings: Any) -> bool:
    return bool(settings.misc_routes)


@define
class FriendBook:
    """What players do to each other's lists, whichever route asked for it.

    ``also_block`` and ``also_unfriend`` run in the transaction that parts two accounts.
    """

    ledger: Ledger
    now: Callable[[], float]
    blocked: Signal[Blocked] = field(factory=Signal)
    unfriended: Signal[Unfriended] = field(factory=Signal)
    accepted: Signal[FriendAccepted] = field(factory=Signal)
    also_block: Sequence[Also] = ()
    also_unfriend: Sequence[Also] = ()
    _asked: Quota = field(factory=lambda: Quota(rules.MAX_NEW_REQUESTS, rules.NEW_REQUESTS_S))

    async def request(self, me: AccountId, friend: AccountId) -> Result:
        """Ask, or accept what they asked."""
        now = self.now()
        may_ask, asked = self._asked.take(me, now), False

        def work(tx: Connection) -> tuple[Result, Friendship]:
            at = round(now * 1000)
            return rules.request(SqlFriends(tx), me, friend, at, may_ask=may_ask)

        try:
            result, row = await self.ledger.write(work)
            asked = result is Result.REQUESTED
        finally:
            if may_ask and not asked:
                self._asked.give_back(me, now)
        if result is Result.ACCEPTED:
            self.accepted.send(FriendAccepted(row.asked_by, me, iso(row.created_at / 1000)))
        return result

    async def unfriend(self, me: AccountId, other: AccountId) -> None:
        """Unfriend, withdraw or decline."""

        def work(tx: Connection) -> Friendship | None:
            ended = rules.unfriend(SqlFriends(tx), me, other)
            for also in self.also_unfriend if ended is not None else ():
                also(tx, me, other)
            return ended

        ended = await self.ledger.write(work)
        if ended is not None and ended.status == ACCEPTED:
            self.unfriended.send(Unfriended(me, other))

    async def block(self, me: AccountId, other: AccountId) -> None:
        """Block; friendship and invites between the two go in the same transaction."""
        at = round(self.now() * 1000)

        def work(tx: Connection) -> bool:
            is_new = rules.block(SqlFriends(tx), me, other, at)
            for also in self.also_block if is_new else ():
                also(tx, me, other)
            return is_new

        if await self.ledger.write(work):
            self.blocked.send(Blocked(me, other))

    async def unblock(self, me: AccountId, other: AccountId) -> None:
        """Drop a block."""
        await self.ledger.write(lambda tx: SqlFriends(tx).unblock(me, other))


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
        "GET", BLOCKLIST, access=Access.OPTIONAL_TOKEN, reply=dict, when=_misc, body_log=True
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
        reply=dict,
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
