"""Operations on parties, for game and management routes. Spec: 1 §4 Parties.

Parties are stored on the board (the live state). Accounts and blocks are in the database, which is
read before the board transaction. If a block is added after this read, an invite is still stored,
but it cannot be accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import frozen
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.refusals import Missing, Refusal
from svcserver.kernel.signals import PlayerActive, Signal
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.social.friends.store import Blocks
from svcserver.metagame.social.parties.rules import Parties, PartyInvitation, PartyState
from svcserver.metagame.social.parties.store import LiveParties, near

T = TypeVar("T")
log = Logger()


@frozen
class PartyActs:
    """The operations on parties; each is one transaction on the board (the live state)."""

    parties: LiveParties
    directory: Directory
    blocks: Blocks
    activity: Signal[PlayerActive]

    async def poll(self, me: AccountId) -> PartyState:
        """Return the caller's party, or a new party of one; the caller counts as active."""
        work = self.parties.transact_with_rules(
            lambda parties: parties.standing(parties.poll(me)), near(me)
        )
        standing = await work
        if self.activity.listeners:
            self.activity.send(PlayerActive(me))
        return standing

    async def names(self, account_ids: Sequence[AccountId]) -> Mapping[AccountId, str]:
        """Return the display names of these accounts; the name of a deleted account is empty."""
        names = await self.directory.names(account_ids)
        return {account_id: names.get(account_id, "") for account_id in account_ids}

    async def invites(self, me: AccountId) -> list[PartyInvitation]:
        """Return the caller's pending invites.

        An invite is left out if the sender or the caller has blocked the other.
        """
        invites = await self.parties.transact_with_rules(lambda parties: parties.invites_to(me))
        blocked = (
            await self.blocks.blocked(me, [invite.sender for invite in invites])
            if invites
            else set()
        )
        return [invite for invite in invites if invite.sender not in blocked]

    async def invite(
        self,
        me: AccountId,
        target: AccountId,
        party_id: str | None = None,
        *,
        attempt: Attempt = ONLY,
    ) -> None:
        """Invite a player to the caller's own party, even if the request names another party."""
        if not is_account_shaped(target) or await self.directory.account_of_id(target) is None:
            raise Missing("no such account")
        blocked = bool(await self.blocks.blocked(me, [target]))

        def work(parties: Parties) -> PartyState:
            return PartyState(parties.invite(me, target, blocked=blocked), None)

        own = await self._transact(me, work, attempt)
        if party_id not in (None, "", own.party.id):
            text = "an invite by {account} is to their own party, not to the party in the request"
            log.info(text, account=me)

    async def accept(self, me: AccountId, named: str, *, attempt: Attempt = ONLY) -> PartyState:
        """Accept an invite and return the party; ``named`` is the id of the party or of the sender.

        A repeated request returns the party that the caller has already joined.
        """
        invite = await self.parties.transact_with_rules(
            lambda parties: parties.invite_named(me, named)
        )
        if invite is None or await self.blocks.blocked(me, [invite.sender]):
            invite = None

        def work(parties: Parties) -> PartyState:
            party = parties.joined(me, named) if invite is None else parties.accept(invite)
            return parties.standing(party)

        return await self._transact(me, work, attempt)

    async def refresh(self, me: AccountId) -> None:
        """Record that the caller is active; remove members who were silent for two minutes."""
        await self.parties.transact_with_rules(lambda parties: parties.refresh(me), near(me))

    async def drop_invite(
        self,
        me: AccountId,
        texts: Iterable[str | None],
        recipient: AccountId | None,
        *,
        attempt: Attempt = ONLY,
    ) -> None:
        """Decline invites to the caller; each of ``texts`` is the id of a party or of a sender.

        If there are no such invites, withdraw the caller's own invites to ``recipient``.
        """
        names = [name for name in texts if name is not None]

        def work(parties: Parties) -> None:
            parties.mark_seen(me)
            if not parties.decline(me, names) and recipient is not None:
                parties.withdraw(me, recipient)

        await self.parties.transact_with_rules(work, attempt=attempt)

    async def parties_of(
        self, me: AccountId, account_ids: Collection[AccountId]
    ) -> list[PartyState]:
        """Return the parties of these players, each once; record that the caller is active."""

        def work(parties: Parties) -> list[PartyState]:
            parties.mark_seen(me)
            return [parties.standing(party) for party in parties.parties_of(account_ids)]

        return await self.parties.transact_with_rules(work, near(*account_ids))

    async def leave(self, me: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Leave the party; the client does so at every log-in."""
        await self.parties.transact_with_rules(lambda parties: parties.leave(me), near(me), attempt)

    async def kick(self, me: AccountId, member: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Remove a member; a caller who removes itself leaves the party."""
        await self._transact(me, lambda parties: parties.kick(me, member), attempt)

    async def promote(self, me: AccountId, member: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Make another member the leader."""
        await self._transact(me, lambda parties: parties.promote(me, member), attempt)

    async def _transact(
        self, me: AccountId, work: Callable[[Parties], T], attempt: Attempt = ONLY
    ) -> T:
        """Run ``work``; the caller counts as active even if ``work`` raises a refusal."""
        try:
            return await self.parties.transact_with_rules(work, near(me), attempt)
        except Refusal:
            await self.parties.transact_with_rules(lambda parties: parties.mark_seen(me))
            raise
