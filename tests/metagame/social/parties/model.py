"""A model of parties in plain dictionaries, to compare with the rules.

The model was written before the rules; it shares only their value types and limits.
"""

from collections import OrderedDict
from collections.abc import Iterable

from attrs import define, evolve, field

from svcserver.kernel.ids import AccountId, new_id
from svcserver.kernel.refusals import Conflict, Forbidden, Missing
from svcserver.kernel.signals import PartyChanged, Signal
from svcserver.metagame.social.parties.rules import (
    DECLINE_PAUSE_S,
    FORGET_S,
    INVITE_S,
    MAX_MEMBERS,
    MAX_PARTY_INVITES,
    MAX_RECEIVED_INVITES,
    MAX_SENT,
    SENT_S,
    SILENT_S,
    Party,
    PartyInvitation,
)


@define
class PlainQuota:
    """A quota of ``limit`` uses per key in any ``window_s`` seconds; ``now`` is in seconds."""

    limit: int
    window_s: float
    _taken: dict[str, list[float]] = field(factory=dict, init=False)

    def take(self, key: str, now: float) -> bool:
        """Use the quota once; return False if it is exhausted."""
        taken = [at for at in self._taken.get(key, ()) if at > now - self.window_s]
        if len(taken) >= self.limit:
            return False
        self._taken[key] = [*taken, now]
        return True


@define
class PlainParties:
    """The model of parties; the caller calls ``sweep`` after time has passed."""

    changed: Signal[PartyChanged] = field(factory=Signal)
    _parties: OrderedDict[str, Party] = field(factory=OrderedDict, init=False)
    _party_of: dict[AccountId, str] = field(factory=dict, init=False)
    _last_polls: dict[AccountId, float] = field(factory=dict, init=False)
    # by recipient, then by party; oldest first
    _invites: dict[AccountId, dict[str, PartyInvitation]] = field(factory=dict, init=False)
    _invited: dict[str, set[AccountId]] = field(factory=dict, init=False)  # party -> recipients
    _sent: PlainQuota = field(factory=lambda: PlainQuota(MAX_SENT, SENT_S), init=False)
    _declined: dict[tuple[AccountId, AccountId], float] = field(factory=dict, init=False)

    # -- being there -------------------------------------------------------

    def hear(self, account_id: AccountId, now: float) -> None:
        """Record a heartbeat, which keeps a member in the party."""
        if account_id in self._party_of:
            self._last_polls[account_id] = now

    def poll(self, account_id: AccountId, now: float) -> Party:
        """Return the player's party; create a party of one if the player has no party."""
        self.hear(account_id, now)
        party = self.of(account_id, now)
        if party is None:
            party = Party(new_id(), account_id, (account_id,))
            self._parties[party.id] = party
            self._party_of[account_id] = party.id
            self._last_polls[account_id] = now
        return party

    def of(self, account_id: AccountId, now: float) -> Party | None:
        """Return the player's current party, or None."""
        party_id = self._party_of.get(account_id)
        return None if party_id is None else self._settled_for(account_id, party_id, now)

    def get(self, party_id: str, now: float) -> Party | None:
        """Return a party by id, or None."""
        return self._settle(party_id, now) if party_id in self._parties else None

    def _settled_for(self, account_id: AccountId, party_id: str, now: float) -> Party | None:
        party = self._settle(party_id, now)
        return party if account_id in party.members else None

    def _settle(self, party_id: str, now: float) -> Party:
        """Remove members who were silent for over two minutes; those silent longest go first."""
        party = self._parties[party_id]
        silent = [member for member in party.members if now - self._last_polls[member] > SILENT_S]
        for member in sorted(silent, key=self._last_polls.__getitem__)[: len(party.members) - 1]:
            self._remove(member)
        return self._parties[party_id]

    # -- invites -----------------------------------------------------------

    def invites_to(self, recipient: AccountId, now: float) -> list[PartyInvitation]:
        """Return the player's live invites, oldest first."""
        return [invite for invite in self._received(recipient) if self._is_live(invite, now)]

    def invite(
        self, sender: AccountId, recipient: AccountId, now: float, *, blocked: bool = False
    ) -> Party:
        """Invite an existing account into the sender's party; raise an exception if refused."""
        if sender == recipient:
            raise Conflict("this is your own account")
        if blocked:
            raise Forbidden("one of you has blocked the other")
        party = self.poll(sender, now)
        if party.leader != sender:
            raise Forbidden("only the party's leader invites")
        if recipient in party.members:
            raise Conflict("already in the party")
        if len(party.members) >= MAX_MEMBERS:
            raise Conflict("the party is full")
        self._check_counts(party, recipient, now)
        if now - self._declined.get((sender, recipient), now - DECLINE_PAUSE_S) < DECLINE_PAUSE_S:
            raise Conflict("that player has just declined")
        if not self._sent.take(sender, now):
            raise Conflict("too many invites, try again later")
        self._keep(PartyInvitation(party.id, sender, recipient, now))
        return party

    def _check_counts(self, party: Party, recipient: AccountId, now: float) -> None:
        received = self.invites_to(recipient, now)
        if any(invite.party_id == party.id for invite in received):
            raise Conflict("already invited")
        if len(self._pending_of(party.id, now)) >= MAX_PARTY_INVITES:
            raise Conflict("the party has too many open invites")
        if len(received) >= MAX_RECEIVED_INVITES:
            raise Conflict("that player has too many open invites")

    def invite_named(self, recipient: AccountId, named: str, now: float) -> PartyInvitation | None:
        """Return the player's live invite from this party or this sender."""
        for invite in self.invites_to(recipient, now):
            if named in (invite.party_id, invite.sender):
                return invite
        return None

    def accept(self, invite: PartyInvitation, now: float) -> Party:
        """Leave the old party and become the last member of the new party.

        Raise Missing if the invite does not exist.
        """
        self.hear(invite.recipient, now)
        party = self.get(invite.party_id, now)
        if self.invite_named(invite.recipient, invite.party_id, now) != invite or party is None:
            raise Missing("no such invite")
        if len(party.members) >= MAX_MEMBERS:
            raise Conflict("the party is full")
        self._drop(invite)
        self.leave(invite.recipient, now)
        joined = evolve(party, members=(*party.members, invite.recipient))
        self._parties[party.id] = joined
        self._party_of[invite.recipient] = party.id
        self._last_polls[invite.recipient] = now
        return joined

    def decline(self, recipient: AccountId, named: Iterable[object], now: float) -> bool:
        """Decline matching invites; the sender cannot invite again for two minutes."""
        wanted = list(named)
        invites = [
            invite
            for invite in self.invites_to(recipient, now)
            if invite.party_id in wanted or invite.sender in wanted
        ]
        for invite in invites:
            self._drop(invite)
            self._declined[invite.sender, recipient] = now
        return bool(invites)

    def withdraw(self, sender: AccountId, recipient: AccountId) -> bool:
        """Withdraw the sender's invite; return whether there was such an invite."""
        invites = [invite for invite in self._received(recipient) if invite.sender == sender]
        for invite in invites:
            self._drop(invite)
        return bool(invites)

    def part(self, first: AccountId, second: AccountId) -> None:
        """End the invites between two players; a party with both players continues."""
        self.withdraw(first, second)
        self.withdraw(second, first)

    # -- leaving and leading -----------------------------------------------

    def leave(self, account_id: AccountId, now: float) -> None:
        """Leave the party, if any; a party of one ends."""
        if account_id in self._party_of:
            self._remove(account_id)

    def kick(self, leader: AccountId, member: AccountId, now: float) -> None:
        """Remove a member from the party; a caller who removes itself leaves the party."""
        if leader == member:
            self.leave(leader, now)
            return
        self.hear(leader, now)
        party = self.of(leader, now)
        if party is None or member not in party.members:
            raise Missing("not in your party")
        if party.leader != leader:
            raise Forbidden("only the party's leader removes others")
        self._remove(member)

    def promote(self, leader: AccountId, member: AccountId, now: float) -> None:
        """Make another member the party leader."""
        party = self.poll(leader, now)
        if party.leader != leader:
            raise Forbidden("only the party's leader can make another member the leader")
        if member not in party.members:
            raise Missing("not in your party")
        self._parties[party.id] = evolve(party, leader=member)

    # -- inside ------------------------------------------------------------

    def _remove(self, account_id: AccountId) -> None:
        party = self._parties[self._party_of.pop(account_id)]
        del self._last_polls[account_id]
        for recipient in list(self._invited.get(party.id, ())):
            invite = self._invites[recipient][party.id]
            if invite.sender == account_id or party.is_solo:
                self._drop(invite)
        rest = tuple(member for member in party.members if member != account_id)
        if rest:
            leader = party.leader if party.leader != account_id else rest[0]
            self._parties[party.id] = Party(party.id, leader, rest)
        else:
            del self._parties[party.id]
        self.changed.send(PartyChanged(party.id, (account_id,)))

    def _keep(self, invite: PartyInvitation) -> None:
        received = self._invites.setdefault(invite.recipient, {})
        received.pop(invite.party_id, None)  # an expired invite would keep its old position
        received[invite.party_id] = invite
        self._invited.setdefault(invite.party_id, set()).add(invite.recipient)

    def _drop(self, invite: PartyInvitation) -> None:
        received, invited = self._invites[invite.recipient], self._invited[invite.party_id]
        del received[invite.party_id]
        invited.discard(invite.recipient)
        if not received:
            del self._invites[invite.recipient]
        if not invited:
            del self._invited[invite.party_id]

    def _received(self, recipient: AccountId) -> list[PartyInvitation]:
        return list(self._invites.get(recipient, {}).values())

    def _pending_of(self, party_id: str, now: float) -> list[PartyInvitation]:
        pending = [
            self._invites[recipient][party_id] for recipient in self._invited.get(party_id, ())
        ]
        return [recipient for recipient in pending if self._is_live(recipient, now)]

    def _is_live(self, invite: PartyInvitation, now: float) -> bool:
        """Return whether the invite has not expired and the sender is still present."""
        if now - invite.at >= INVITE_S:
            return False
        party = self.get(invite.party_id, now)
        return party is not None and invite.sender in party.members

    def sweep(self, now: float) -> None:
        """Delete expired invites, and parties of one whose player left long ago."""
        old = [
            invite
            for received in self._invites.values()
            for invite in received.values()
            if now - invite.at >= INVITE_S
        ]
        for invite in old:
            self._drop(invite)
        for party in list(self._parties.values()):
            if not party.is_solo:
                party = self._settle(party.id, now)
            if party.is_solo and now - self._last_polls[party.leader] > FORGET_S:
                self._remove(party.leader)
