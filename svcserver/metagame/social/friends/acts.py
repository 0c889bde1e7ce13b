"""Operations on friendships and blocks, for game and management routes. Spec: 1 §4 Friends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field
from sqlalchemy import Connection

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.db.ledger import ACROSS
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Blocked, FriendAccepted, Signal, Unfriended
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.social.friends import rules
from svcserver.metagame.social.friends.rules import ACCEPTED, Friendship, RequestResult
from svcserver.metagame.social.friends.store import Also, SqlFriends

REQUESTS_SENT = Quota.named("friend_requests_sent", rules.MAX_NEW_REQUESTS, rules.NEW_REQUESTS_S)


@define
class FriendActs:
    """The operations on friendships and blocks; each write sends a signal after its transaction.

    The ``also_block`` and ``also_unfriend`` functions run in the transaction of the write.
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
        self, me: AccountId, friend: AccountId, *, attempt: Attempt = ONLY
    ) -> RequestResult:
        async with REQUESTS_SENT.place(self.board, me) as place:

            def work(tx: Connection) -> tuple[RequestResult, Friendship]:
                return rules.request(SqlFriends(tx), me, friend, self._at(), may_ask=place.free)

            once = attempt.once(work, tuple[RequestResult, Friendship])
            result, row = await self.data.write(me, 0, once, ACROSS)
            place.used = result is RequestResult.REQUESTED and not attempt.was_done
        if result is RequestResult.ACCEPTED:
            self.accepted.send(FriendAccepted(row.asked_by, me, iso(row.created_at / 1000)))
        return result

    @shielded
    async def unfriend(self, me: AccountId, friend: AccountId, *, attempt: Attempt = ONLY) -> None:
        """End a friendship, or withdraw or decline a friend request."""

        def work(tx: Connection) -> bool:
            ended = rules.unfriend(SqlFriends(tx), me, friend)
            for also in self.also_unfriend if ended is not None else ():
                also(tx, me, friend)
            return ended is not None and ended.status == ACCEPTED

        if await self.data.write(me, 0, attempt.once(work, bool), ACROSS):
            self.unfriended.send(Unfriended(me, friend))

    @shielded
    async def block(self, me: AccountId, target: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Block an account; in the same transaction, end its friendship and invites with ``me``."""

        def work(tx: Connection) -> bool:
            is_new = rules.block(SqlFriends(tx), me, target, self._at())
            for also in self.also_block if is_new else ():
                also(tx, me, target)
            return is_new

        if await self.data.write(me, 0, attempt.once(work, bool), ACROSS):
            self.blocked.send(Blocked(me, target))

    async def friends(self, me: AccountId, *, pending: bool) -> list[Friendship]:
        """Return the account's friends and, if ``pending``, the requests it sent and received."""
        friendships = await self.data.read_for_account(
            me, lambda tx: SqlFriends(tx).friendships_of(me)
        )
        return [
            friendship for friendship in friendships if pending or friendship.status == ACCEPTED
        ]

    async def blocks(self, me: AccountId) -> list[AccountId]:
        return await self.data.read_for_account(me, lambda tx: SqlFriends(tx).blocks(me))

    async def unblock(self, me: AccountId, target: AccountId, *, attempt: Attempt = ONLY) -> None:
        once = attempt.once(lambda tx: SqlFriends(tx).unblock(me, target))
        await self.data.write(me, 0, once, ACROSS)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)
