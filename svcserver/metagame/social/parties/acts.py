"""What players do with parties, whichever route asked for it. Spec: 1 §4 Parties.

Parties live in memory: an act is one turn of the reactor, after what it must read first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.refusals import Missing
from svcserver.kernel.signals import Heard, Signal
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.social.parties.rules import Invite, Parties, Party, PartyCandidate

log = Logger()


class Candidates(Protocol):
    """What the party poll asks of matchmaking."""

    def of_party(self, party_id: str, now: float) -> PartyCandidate | None: ...


class Apart(Protocol):
    """Who blocked whom, either way."""

    def apart(self, me: AccountId, others: Iterable[AccountId]) -> Deferred[set[AccountId]]: ...


@frozen
class PartyActs:
    """Each method is one act on the live parties."""

    parties: Parties
    directory: Directory
    blocks: Apart
    heard: Signal[Heard]
    candidates: Candidates
    now: Callable[[], float]

    def poll(self, me: AccountId) -> Party:
        """The caller's party or a party of one; a sign of life."""
        party = self.parties.poll(me, self.now())
        self.heard.send(Heard(me))
        return party

    def candidate(self, party: Party) -> PartyCandidate | None:
        """What the party waits for or was sent to."""
        return None if party.is_solo else self.candidates.of_party(party.id, self.now())

    async def names(self, account_ids: Sequence[AccountId]) -> Mapping[AccountId, str]:
        """Display names, empty for an account that is gone."""
        found = await self.directory.accounts(account_ids) if account_ids else {}
        return {one: found[one].username if one in found else "" for one in account_ids}

    async def invites(self, me: AccountId) -> list[Invite]:
        """The caller's pending invites, but for those of somebody blocked."""
        found = self.parties.invites_to(me, self.now())
        apart = await self.blocks.apart(me, [one.sender for one in found]) if found else set()
        return [one for one in found if one.sender not in apart]

    async def invite(self, me: AccountId, other: AccountId, party_id: str | None = None) -> None:
        """Invite into the caller's own party, whatever party is named."""
        if not is_account_shaped(other) or await self.directory.account_of_id(other) is None:
            raise Missing("no such account")
        blocked = bool(await self.blocks.apart(me, [other]))
        party = self.parties.invite(me, other, self.now(), blocked=blocked)
        if party_id not in (None, "", party.id):
            log.info("an invite by {account} named another party", account=me)

    async def accept(self, me: AccountId, named: str) -> Party:
        """Join by party id or sender; a repeated accept finds the party joined before."""
        invite = self.parties.invite_named(me, named, self.now())
        if invite is not None and await self.blocks.apart(me, [invite.sender]):
            invite = None
        now = self.now()
        party = self._joined(me, named, now) if invite is None else None
        if invite is not None:
            party = self.parties.accept(invite, now)
        if party is None:
            raise Missing("no such invite")
        return party

    def _joined(self, me: AccountId, named: str, now: float) -> Party | None:
        """The party of two or more that the caller is in already and the id means."""
        party = self.refresh(me, now)
        if party is None or party.is_solo or named == me:
            return None
        return party if named == party.id or named in party.members else None

    def refresh(self, me: AccountId, now: float | None = None) -> Party | None:
        """A sign of life; reading the party drops a leader unheard for two minutes."""
        at = self.now() if now is None else now
        self.parties.hear(me, at)
        return self.parties.of(me, at)

    def drop_invite(
        self, me: AccountId, named: Iterable[str | None], recipient: AccountId | None
    ) -> None:
        """Decline as the invited, else withdraw as the sender; nothing found is fine."""
        now = self.now()
        self.parties.hear(me, now)
        declined = self.parties.decline(me, [one for one in named if one is not None], now)
        if not declined and recipient is not None:
            self.parties.withdraw(me, recipient)

    def of(self, me: AccountId, asked: Iterable[AccountId]) -> list[Party]:
        """The parties of these players, each once; a sign of life of the caller."""
        now = self.now()
        self.parties.hear(me, now)
        found = [self.parties.of(one, now) for one in asked]
        return list({party.id: party for party in found if party is not None}.values())

    def leave(self, me: AccountId) -> None:
        """Leave; the client sends it at every login."""
        self.parties.leave(me, self.now())

    def kick(self, me: AccountId, member: AccountId) -> None:
        """Remove a member; naming oneself is leaving."""
        self.parties.kick(me, member, self.now())

    def promote(self, me: AccountId, member: AccountId) -> None:
        """Hand the lead over."""
        self.parties.promote(me, member, self.now())
