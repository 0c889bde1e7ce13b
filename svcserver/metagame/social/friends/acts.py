"""Operations on friendships and blocks, for game and management routes. Spec: 1 §4 Friends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field
from sqlalchemy import Connection
from twisted.internet.defer import Deferred

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.board.waiting import dispensable
from svcserver.db.ledger import ACROSS
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.repeats import Repeat
from svcserver.kernel.signals import Blocked, FriendAccepted, Signal, Unfriended
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.social.friends import repeats, rules
from svcserver.metagame.social.friends.rules import ACCEPTED, Friendship, Result
from svcserver.metagame.social.friends.store import Also, SqlFriends

ASKED = Quota.of("friend_requests_sent", rules.MAX_NEW_REQUESTS, rules.NEW_REQUESTS_S)


@define
class FriendActs:
    """Each write is one transaction, followed by its signal.

    ``also_block`` and ``also_unfriend`` run in the transaction that blocks or unfriends.
    ``repeat``: it may have been done already, and nobody told; then it is told all the same.
    """

    data: AccountData
    board: Board
    wall_clock: Callable[[], float]
    blocked: Signal[Blocked] = field(factory=Signal)
    unfriended: Signal[Unfriended] = field(factory=Signal)
    accepted: Signal[FriendAccepted] = field(factory=Signal)
    also_block: Sequence[Also] = ()
    also_unfriend: Sequence[Also] = ()

    @shielded
    async def request(
        self, me: AccountId, friend: AccountId, *, repeat: Repeat | None = None
    ) -> Result:
        """Send a friend request, or accept theirs."""
        was: Friendship | None = None
        if repeat:
            was = await self.data.read(me, lambda tx: SqlFriends(tx).between(me, friend))
            if await self._has_ended(me, friend, repeat):
                return Result.ALREADY_REQUESTED
        async with ASKED.place(self.board, me) as place:

            def work(tx: Connection) -> tuple[Result, Friendship]:
                friends = SqlFriends(tx)
                if was is not None and friends.between(me, friend) is None:
                    return Result.ALREADY_REQUESTED, was  # it was ended since it was looked at
                return rules.request(friends, me, friend, self._at(), may_ask=place.free)

            result, row = await self.data.write(me, 0, work, ACROSS)
            place.used = result is Result.REQUESTED
        if result is Result.ACCEPTED or repeats.may_have_accepted(row, me, self._at(), repeat):
            self.accepted.send(FriendAccepted(row.asked_by, me, iso(row.created_at / 1000)))
        return result

    def _has_ended(self, me: AccountId, other: AccountId, repeat: Repeat) -> Deferred[bool]:
        return self.board.act(lambda sheet: repeats.has_ended(sheet, me, other, repeat))

    @shielded
    async def unfriend(
        self, me: AccountId, other: AccountId, *, repeat: Repeat | None = None
    ) -> None:
        """Unfriend, withdraw a request or decline one."""
        noted = self.board.act(lambda sheet: repeats.note_ended(sheet, me, other, repeat))
        await dispensable(noted, None)

        def work(tx: Connection) -> bool:
            friends = SqlFriends(tx)
            if repeat and repeats.is_new(friends.between(me, other), other, self._at(), repeat):
                return True
            ended = rules.unfriend(friends, me, other)
            for also in self.also_unfriend if ended is not None else ():
                also(tx, me, other)
            return repeat is not None if ended is None else ended.status == ACCEPTED

        if await self.data.write(me, 0, work, ACROSS):
            self.unfriended.send(Unfriended(me, other))

    @shielded
    async def block(self, me: AccountId, other: AccountId, *, repeat: Repeat | None = None) -> None:
        """Block; friendship and invites between the two end in the same transaction."""

        def work(tx: Connection) -> bool:
            is_new = rules.block(SqlFriends(tx), me, other, self._at())
            for also in self.also_block if is_new else ():
                also(tx, me, other)
            return is_new or repeat is not None

        if await self.data.write(me, 0, work, ACROSS):
            self.blocked.send(Blocked(me, other))

    async def friends(self, me: AccountId, *, pending: bool) -> list[Friendship]:
        """The account's friends; with ``pending`` also the requests in both directions."""
        found = await self.data.read(me, lambda tx: SqlFriends(tx).of(me))
        return [one for one in found if pending or one.status == ACCEPTED]

    async def blocks(self, me: AccountId) -> list[AccountId]:
        """The accounts that the account has blocked."""
        return await self.data.read(me, lambda tx: SqlFriends(tx).blocks(me))

    async def unblock(self, me: AccountId, other: AccountId) -> None:
        await self.data.write(me, 0, lambda tx: SqlFriends(tx).unblock(me, other), ACROSS)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)
