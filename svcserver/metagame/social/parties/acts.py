"""Operations on parties, for game and management routes. Spec: 1 §4 Parties.

Parties live on the board. What the database says (who exists, who has blocked whom) is read before
the act; a block that comes in between leaves an invite that ends by itself, and nobody can accept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import frozen
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.refusals import Missing, Refusal
from svcserver.kernel.signals import Heard, Signal
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.social.friends.store import Blocks
from svcserver.metagame.social.parties.rules import Invite, Parties, Standing
from svcserver.metagame.social.parties.store import LiveParties, near

T = TypeVar("T")
log = Logger()


@frozen
class PartyActs:
    """Each method is one act on the live parties."""

    parties: LiveParties
    directory: Directory
    blocks: Blocks
    heard: Signal[Heard]

    async def poll(self, me: AccountId) -> Standing:
        """The caller's party or a party of one; a sign of life."""
        work = self.parties.act(lambda parties: parties.standing(parties.poll(me)), near(me))
        standing = await work
        if self.heard.listeners:
            self.heard.send(Heard(me))
        return standing

    async def names(self, account_ids: Sequence[AccountId]) -> Mapping[AccountId, str]:
        """Display names, empty for an account that is gone."""
        found = await self.directory.names(account_ids)
        return {one: found.get(one, "") for one in account_ids}

    async def invites(self, me: AccountId) -> list[Invite]:
        """The caller's pending invites, but for those of somebody blocked."""
        found = await self.parties.act(lambda parties: parties.invites_to(me))
        blocked = await self.blocks.blocked(me, [one.sender for one in found]) if found else set()
        return [one for one in found if one.sender not in blocked]

    async def invite(
        self,
        me: AccountId,
        other: AccountId,
        party_id: str | None = None,
        *,
        attempt: Attempt = ONLY,
    ) -> None:
        """Invite into the caller's own party, whatever party is named."""
        if not is_account_shaped(other) or await self.directory.account_of_id(other) is None:
            raise Missing("no such account")
        blocked = bool(await self.blocks.blocked(me, [other]))

        def work(parties: Parties) -> Standing:
            return Standing(parties.invite(me, other, blocked=blocked), None)

        own = await self._act(me, work, attempt)
        if party_id not in (None, "", own.party.id):
            log.info("an invite by {account} named another party", account=me)

    async def accept(self, me: AccountId, named: str, *, attempt: Attempt = ONLY) -> Standing:
        """Join by party id or sender; a repeated accept finds the party joined before."""
        invite = await self.parties.act(lambda parties: parties.invite_named(me, named))
        if invite is None or await self.blocks.blocked(me, [invite.sender]):
            invite = None

        def work(parties: Parties) -> Standing:
            party = parties.joined(me, named) if invite is None else parties.accept(invite)
            return parties.standing(party)

        return await self._act(me, work, attempt)

    async def refresh(self, me: AccountId) -> None:
        """A sign of life; reading the party drops a leader unheard for two minutes."""
        await self.parties.act(lambda parties: parties.refresh(me), near(me))

    async def drop_invite(
        self,
        me: AccountId,
        named: Iterable[str | None],
        recipient: AccountId | None,
        *,
        attempt: Attempt = ONLY,
    ) -> None:
        """Decline as the invited, else withdraw as the sender; nothing found is fine."""
        given = [one for one in named if one is not None]

        def work(parties: Parties) -> None:
            parties.hear(me)
            if not parties.decline(me, given) and recipient is not None:
                parties.withdraw(me, recipient)

        await self.parties.act(work, attempt=attempt)

    async def of(self, me: AccountId, asked: Collection[AccountId]) -> list[Standing]:
        """The parties of these players, each once; a sign of life of the caller."""

        def work(parties: Parties) -> list[Standing]:
            parties.hear(me)
            return [parties.standing(party) for party in parties.of_all(asked)]

        return await self.parties.act(work, near(*asked))

    async def leave(self, me: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Leave; the client sends it at every login."""
        await self.parties.act(lambda parties: parties.leave(me), near(me), attempt)

    async def kick(self, me: AccountId, member: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Remove a member; naming oneself is leaving."""
        await self._act(me, lambda parties: parties.kick(me, member), attempt)

    async def promote(self, me: AccountId, member: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Make another member the leader."""
        await self._act(me, lambda parties: parties.promote(me, member), attempt)

    async def _act(self, me: AccountId, work: Callable[[Parties], T], attempt: Attempt = ONLY) -> T:
        """What is refused leaves nothing behind but a sign of life."""
        try:
            return await self.parties.act(work, near(me), attempt)
        except Refusal:
            await self.parties.act(lambda parties: parties.hear(me))
            raise
