"""Operations on slayer links, one transaction each. Spec: 1 §4 Slayer links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from attrs import frozen

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.db.ledger import ACROSS
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId, new_id
from svcserver.kernel.refusals import Conflict
from svcserver.kernel.times import HOUR_MS
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.social.slayerlinks import rules
from svcserver.metagame.social.slayerlinks.rules import (
    InviteAction,
    InviteAnswer,
    InviteStatus,
    Link,
    LinkInvite,
)
from svcserver.metagame.social.slayerlinks.store import SqlSlayerLinks

T = TypeVar("T")

INVITES_SENT = Quota.named("slayer_link_invites_sent", rules.MAX_NEW_INVITES, rules.NEW_INVITES_S)


# -- operations in an open transaction -------------------------------------------


def waiting(links: SqlSlayerLinks, me: AccountId, at: int) -> list[LinkInvite]:
    """Return the pending invites that ``me`` has sent or received, oldest first."""
    return rules.waiting([*links.sent(me), *links.received(me)], at)


def invite(
    links: SqlSlayerLinks,
    me: AccountId,
    target: AccountId,
    slot: int | None,
    at: int,
    *,
    may_send: bool,
) -> tuple[str, bool]:
    """Invite a friend to a slayer link; return the link's id, and whether the invite is new.

    ``may_send`` is False when the quota of new invites is used up; the quota is checked last.
    """
    slot = rules.slot_for_invite(me, target, slot, exists=links.exists(target))
    _check_may_link(links, me, target, at)
    pending = rules.pending_invite(target, links.sent(me), links.received(me), at)
    if pending is not None:
        return pending.link_id, False
    taken = links.taken_slots([me, target], at)
    rules.check_slots(slot, taken.get(me, ()), taken.get(target, ()))
    if not may_send:
        raise Conflict("too many invites, try again later")
    links.sweep(at)
    links.forget(me, target, at - rules.ANSWERED_MS)
    expires_at = at + rules.INVITE_HOURS * HOUR_MS
    new = LinkInvite(new_id(), me, target, slot, InviteStatus.PENDING, at, expires_at)
    links.add_invite(new)
    return new.link_id, True


def answer(links: SqlSlayerLinks, me: AccountId, reply: InviteAnswer, at: int) -> str:
    """Accept, reject or cancel an invite; return the link's id.

    A repeated request changes nothing.
    """
    action = rules.action_of(reply)
    invites = links.sent(me) if action is InviteAction.CANCEL else links.received(me)
    invite = rules.answered_invite(reply, me, invites)
    if invite.status is not rules.STATUS_OF[action]:
        if not invite.is_waiting(at):
            raise Conflict("this invite has ended")
        if action is InviteAction.ACCEPT:
            _check_may_link(links, me, invite.sender, at)
            taken = links.taken_slots([me], at).get(me, ())
            slot = rules.free_slot(taken, reply.slot)
            links.sweep(at)
            links.add_links(*rules.sides_of(invite, slot, at))
        links.answer(invite.link_id, rules.STATUS_OF[action])
    return invite.link_id


def _check_may_link(links: SqlSlayerLinks, me: AccountId, target: AccountId, at: int) -> None:
    are_friends = links.are_friends(me, target)
    rules.check_may_link(target, links.running(me, at), are_friends=are_friends)


def drop_invites(links: SqlSlayerLinks, me: AccountId, partner: AccountId, at: int) -> None:
    """End the pending invites between ``me`` and ``partner``.

    If ``partner`` is ``me``, end all pending invites that ``me`` has sent or received.
    """
    for invite in waiting(links, me, at):
        if partner in (me, invite.partner_of(me)):
            is_own = invite.sender == me
            links.answer(invite.link_id, InviteStatus.CANCELED if is_own else InviteStatus.DECLINED)


def end_link(
    links: SqlSlayerLinks, me: AccountId, partner: AccountId | None, slot: int | None, at: int
) -> None:
    """End the caller's links that have this partner and this slot, for both players.

    None stands for any partner or slot. If ``partner`` and ``slot`` are None, no link ends.
    """
    for link in links.running(me, at):
        if rules.is_meant(link, partner, slot):
            links.end_link(link.link_id)


def available(
    links: SqlSlayerLinks, me: AccountId, account_ids: Iterable[AccountId], at: int
) -> dict[AccountId, bool]:
    """Return, for each player, whether ``me`` could invite that player."""
    wanted, friends = list(dict.fromkeys(account_ids)), links.friends(me)
    tied = {link.partner for link in links.running(me, at)}
    tied |= {invite.partner_of(me) for invite in waiting(links, me, at)}
    candidates = [account_id for account_id in wanted if account_id in friends]
    taken = links.taken_slots([me, *candidates], at)
    return rules.available(me, wanted, friends, tied, taken)


# -- operations, one transaction each --------------------------------------------


@frozen
class SlayerLinkActs:
    """The operations on slayer links; new invites are rate-limited."""

    data: AccountData
    board: Board
    wall_clock: Callable[[], float]

    async def status(self, me: AccountId) -> tuple[Sequence[LinkInvite], Sequence[Link]]:
        """Return the pending invites, sent and received, and the current links ordered by slot."""

        return await self._read_links(
            me, lambda links, at: (waiting(links, me, at), links.running(me, at))
        )

    async def invites(self, me: AccountId) -> Sequence[LinkInvite]:
        return await self._read_links(me, lambda links, at: waiting(links, me, at))

    async def links(self, me: AccountId) -> Sequence[Link]:
        return await self._read_links(me, lambda links, at: links.running(me, at))

    async def available(
        self, me: AccountId, account_ids: Sequence[AccountId]
    ) -> dict[AccountId, bool]:
        return await self._read_links(me, lambda links, at: available(links, me, account_ids, at))

    @shielded
    async def invite(
        self, me: AccountId, partner: AccountId, slot: int | None, *, attempt: Attempt = ONLY
    ) -> str:
        """Invite a friend to a slayer link; return the id of the new or already pending invite."""
        async with INVITES_SENT.place(self.board, me) as place:

            def work(links: SqlSlayerLinks, at: int) -> tuple[str, bool]:
                return invite(links, me, partner, slot, at, may_send=place.free)

            link_id, is_new = await self._write(me, work, attempt, tuple[str, bool])
            place.used = is_new and not attempt.was_done
        return link_id

    async def answer(self, me: AccountId, reply: InviteAnswer, *, attempt: Attempt = ONLY) -> str:
        return await self._write(me, lambda links, at: answer(links, me, reply, at), attempt, str)

    async def drop_invites(
        self, me: AccountId, partner: AccountId, *, attempt: Attempt = ONLY
    ) -> None:
        await self._write(me, lambda links, at: drop_invites(links, me, partner, at), attempt)

    async def end_link(
        self, me: AccountId, partner: AccountId | None, slot: int | None, *, attempt: Attempt = ONLY
    ) -> None:
        await self._write(me, lambda links, at: end_link(links, me, partner, slot, at), attempt)

    def _read_links(self, me: AccountId, work: Callable[[SqlSlayerLinks, int], T]) -> Awaitable[T]:
        return self.data.read_for_account(me, lambda tx: work(SqlSlayerLinks(tx), self._at()))

    def _write(
        self,
        me: AccountId,
        work: Callable[[SqlSlayerLinks, int], T],
        attempt: Attempt,
        shape: Any = None,
    ) -> Awaitable[T]:
        """Run ``work(links, at)`` in a transaction; ``shape`` is the type of the result."""
        once = attempt.once(lambda tx: work(SqlSlayerLinks(tx), self._at()), shape)
        return self.data.write(me, 0, once, ACROSS)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)
