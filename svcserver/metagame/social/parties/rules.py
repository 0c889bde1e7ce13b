"""The rules for parties and their invites. Spec: 1 §3, §4 Parties, §8.

Parties and invites are board entries. Board entries expire, so a party or an invite may be missing.
Whenever a party is read, members who have been silent for too long are removed.
"""

from collections.abc import Collection
from typing import Protocol

from attrs import define, evolve, frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Missing

MAX_MEMBERS = 4
MAX_PARTY_INVITES = 8
MAX_RECEIVED_INVITES = 10
MAX_SENT = 20
SENT_S = 600.0
INVITE_S = 300.0
DECLINE_PAUSE_S = 120.0
SILENT_S = 120.0
FORGET_S = 3600.0  # seconds; a party of one is deleted if its player is silent this long
NEVER = float("-inf")


@frozen
class Party:
    """One to four players in the order of joining; one of them is the leader."""

    id: str
    leader: AccountId
    members: tuple[AccountId, ...]

    @property
    def is_solo(self) -> bool:
        return len(self.members) == 1


@frozen
class PartyInvitation:
    """An invite by ``sender`` to ``recipient``, valid for five minutes."""

    party_id: str
    sender: AccountId
    recipient: AccountId
    at: float


@frozen
class PartyCandidate:
    """The hunt for which a party waits (MATCHING) or to which it was sent (IN_PROGRESS)."""

    id: str
    state: str
    hunt_id: str
    members: frozenset[AccountId]


@frozen
class PartyState:
    """A party, and the hunt, if any, that the party waits for or was sent to."""

    party: Party
    candidate: PartyCandidate | None


class StoredParties(Protocol):
    """The stored parties and invites, inside one transaction on the board (the live state)."""

    @property
    def now(self) -> float: ...

    def new_id(self) -> str: ...
    def party(self, party_id: str) -> Party | None: ...
    def keep(self, party: Party) -> None: ...
    def end(self, party_id: str) -> None: ...
    def party_id_of(self, account_id: AccountId) -> str | None: ...
    def place(self, account_id: AccountId, party_id: str | None) -> None: ...
    def last_seen(self, account_id: AccountId) -> float | None: ...
    def mark_seen(self, account_id: AccountId) -> None: ...
    def received(self, recipient: AccountId) -> tuple[PartyInvitation, ...]: ...
    def keep_received(self, recipient: AccountId, invites: tuple[PartyInvitation, ...]) -> None: ...
    def pending(self, party_id: str) -> tuple[PartyInvitation, ...]: ...
    def keep_pending(self, party_id: str, invites: tuple[PartyInvitation, ...]) -> None: ...
    def count_sent(self, sender: AccountId) -> bool: ...
    def is_paused(self, sender: AccountId, recipient: AccountId) -> bool: ...
    def pause(self, sender: AccountId, recipient: AccountId) -> None: ...
    def left(self, party_id: str, account_id: AccountId) -> None: ...
    def candidate(self, party_id: str) -> PartyCandidate | None: ...


@define
class Parties:
    """The operations on parties and invites.

    If an operation raises a refusal, none of its writes take effect.
    """

    stored: StoredParties

    # -- activity and reading ----------------------------------------------

    def mark_seen(self, account_id: AccountId) -> None:
        """Record that the player is active; only active players stay in a party."""
        self.stored.mark_seen(account_id)

    def poll(self, account_id: AccountId) -> Party:
        """Return the player's party, or a new party of one; the player counts as active."""
        self.stored.mark_seen(account_id)
        party = self.party_of(account_id)
        if party is None:
            party = Party(self.stored.new_id(), account_id, (account_id,))
            self.stored.keep(party)
            self.stored.place(account_id, party.id)
        return party

    def refresh(self, account_id: AccountId) -> Party | None:
        """Record that the player is active, and return the player's party."""
        self.stored.mark_seen(account_id)
        return self.party_of(account_id)

    def party_of(self, account_id: AccountId) -> Party | None:
        """Return the player's current party, or None."""
        party_id = self.stored.party_id_of(account_id)
        party = None if party_id is None else self.get(party_id)
        return party if party is not None and account_id in party.members else None

    def parties_of(self, account_ids: Collection[AccountId]) -> list[Party]:
        """Return the parties of these players, each party once."""
        parties = [self.party_of(account_id) for account_id in account_ids]
        return list({party.id: party for party in parties if party is not None}.values())

    def standing(self, party: Party) -> PartyState:
        """Return the party, with the hunt that it waits for or was sent to."""
        return PartyState(party, None if party.is_solo else self.stored.candidate(party.id))

    def get(self, party_id: str) -> Party | None:
        """Return a party by its id, or None."""
        party = self.stored.party(party_id)
        return None if party is None else self._settled(party)

    def _settled(self, party: Party) -> Party | None:
        """Return the party after removing members who have been silent for over two minutes."""
        now = self.stored.now
        if not party.is_solo:
            last_seen = {member: self._last_seen(member) for member in party.members}
            silent = sorted(
                (member for member in last_seen if now - last_seen[member] > SILENT_S),
                key=last_seen.__getitem__,
            )
            for member in silent[: len(party.members) - 1]:
                party = self._remove(member, party) or party
        if party.is_solo and now - self._last_seen(party.leader) > FORGET_S:
            return self._remove(party.leader, party)
        return party

    def _last_seen(self, account_id: AccountId) -> float:
        seen_at = self.stored.last_seen(account_id)
        return NEVER if seen_at is None else seen_at

    # -- invites -----------------------------------------------------------

    def invites_to(self, recipient: AccountId) -> list[PartyInvitation]:
        """Return the player's valid invites, oldest first."""
        return self._live(self.stored.received(recipient))

    def invite(
        self,
        sender: AccountId,
        recipient: AccountId,
        *,
        blocked: bool = False,
    ) -> Party:
        """Invite an existing account to the sender's party; raises a refusal if not allowed."""
        if sender == recipient:
            raise Conflict("this is your own account")
        if blocked:
            raise Forbidden("one of you has blocked the other")
        party = self.poll(sender)
        if party.leader != sender:
            raise Forbidden("only the party's leader invites")
        if recipient in party.members:
            raise Conflict("already in the party")
        if len(party.members) >= MAX_MEMBERS:
            raise Conflict("the party is full")
        self._check_counts(party, recipient)
        if self.stored.is_paused(sender, recipient):
            raise Conflict("that player has just declined")
        if not self.stored.count_sent(sender):
            raise Conflict("too many invites, try again later")
        self._keep(PartyInvitation(party.id, sender, recipient, self.stored.now))
        return party

    def _check_counts(self, party: Party, recipient: AccountId) -> None:
        received = self.invites_to(recipient)
        if any(invite.party_id == party.id for invite in received):
            raise Conflict("already invited")
        if len(self._live(self.stored.pending(party.id))) >= MAX_PARTY_INVITES:
            raise Conflict("the party has too many open invites")
        if len(received) >= MAX_RECEIVED_INVITES:
            raise Conflict("that player has too many open invites")

    def invite_named(self, recipient: AccountId, named: str) -> PartyInvitation | None:
        """Return the player's valid invite whose party or sender has the id ``named``, or None."""
        for invite in self.invites_to(recipient):
            if named in (invite.party_id, invite.sender):
                return invite
        return None

    def accept(self, invite: PartyInvitation) -> Party:
        """Leave the old party and join the new one as its last member.

        Raises Missing if the invite is no longer valid, and Conflict if the new party is full.
        """
        self.mark_seen(invite.recipient)
        party = self.get(invite.party_id)
        if party is None or self.invite_named(invite.recipient, invite.party_id) != invite:
            raise Missing("no such invite")
        if len(party.members) >= MAX_MEMBERS:
            raise Conflict("the party is full")
        self._drop(invite)
        self.leave(invite.recipient)
        joined = evolve(party, members=(*party.members, invite.recipient))
        self.stored.keep(joined)
        self.stored.place(invite.recipient, party.id)
        return joined

    def joined(self, account_id: AccountId, named: str) -> Party:
        """Return the player's party if ``named`` is the party's id or another member's id.

        Raises Missing if ``named`` is any other id, or if the player is alone in the party.
        """
        party = self.refresh(account_id)
        if party is None or party.is_solo or named == account_id:
            raise Missing("no such invite")
        if named != party.id and named not in party.members:
            raise Missing("no such invite")
        return party

    def decline(self, recipient: AccountId, named: Collection[str]) -> bool:
        """Decline the player's invites from these parties or senders; return False if none exist.

        Each sender may invite the recipient again after two minutes.
        """
        declined = [
            invite
            for invite in self.invites_to(recipient)
            if invite.party_id in named or invite.sender in named
        ]
        for invite in declined:
            self._drop(invite)
            self.stored.pause(invite.sender, recipient)
        return bool(declined)

    def withdraw(self, sender: AccountId, recipient: AccountId) -> bool:
        """Withdraw the sender's invites to the recipient; return False if there were no invites."""
        sent = [invite for invite in self.stored.received(recipient) if invite.sender == sender]
        for invite in sent:
            self._drop(invite)
        return bool(sent)

    def part(self, first: AccountId, second: AccountId) -> None:
        """End the invites between two players; players who share a party stay in it."""
        self.withdraw(first, second)
        self.withdraw(second, first)

    # -- leaving and leading -----------------------------------------------

    def leave(self, account_id: AccountId) -> None:
        """Leave the party, if any; a party without members ends."""
        party_id = self.stored.party_id_of(account_id)
        party = None if party_id is None else self.stored.party(party_id)
        if party is not None and account_id in party.members:
            self._remove(account_id, party)

    def kick(self, leader: AccountId, member: AccountId) -> None:
        """Remove a party member, or leave if both ids are equal; raises Missing or Forbidden."""
        if leader == member:
            self.leave(leader)
            return
        party = self.refresh(leader)
        if party is None or member not in party.members:
            raise Missing("not in your party")
        if party.leader != leader:
            raise Forbidden("only the party's leader removes others")
        self._remove(member, party)

    def promote(self, leader: AccountId, member: AccountId) -> None:
        """Make another member the leader; raises Forbidden or Missing."""
        party = self.poll(leader)
        if party.leader != leader:
            raise Forbidden("only the party's leader can make another member the leader")
        if member not in party.members:
            raise Missing("not in your party")
        self.stored.keep(evolve(party, leader=member))

    # -- helpers -----------------------------------------------------------

    def _remove(self, account_id: AccountId, party: Party) -> Party | None:
        """Remove the member; return the remaining party, or None if nobody is left."""
        if self.stored.party_id_of(account_id) == party.id:
            self.stored.place(account_id, None)
        for invite in self.stored.pending(party.id):
            if invite.sender == account_id or party.is_solo:
                self._drop(invite)
        rest = tuple(member for member in party.members if member != account_id)
        left = None
        if rest:
            leader = party.leader if party.leader != account_id else rest[0]
            left = Party(party.id, leader, rest)
            self.stored.keep(left)
        else:
            self.stored.end(party.id)
        self.stored.left(party.id, account_id)
        return left

    def _keep(self, invite: PartyInvitation) -> None:
        self._drop(invite)  # an expired invite would keep its old place
        received = self.stored.received(invite.recipient)
        pending = self.stored.pending(invite.party_id)
        self.stored.keep_received(invite.recipient, self._fresh(received, invite))
        self.stored.keep_pending(invite.party_id, self._fresh(pending, invite))

    def _fresh(
        self, invites: tuple[PartyInvitation, ...], invite: PartyInvitation
    ) -> tuple[PartyInvitation, ...]:
        return (
            *(earlier for earlier in invites if self.stored.now - earlier.at < INVITE_S),
            invite,
        )

    def _drop(self, invite: PartyInvitation) -> None:
        """Delete the invite, so that its recipient can no longer accept it."""
        received = self.stored.received(invite.recipient)
        rest = tuple(current for current in received if current.party_id != invite.party_id)
        if rest != received:
            self.stored.keep_received(invite.recipient, rest)
        pending = self.stored.pending(invite.party_id)
        rest = tuple(current for current in pending if current.recipient != invite.recipient)
        if rest != pending:
            self.stored.keep_pending(invite.party_id, rest)

    def _live(self, invites: tuple[PartyInvitation, ...]) -> list[PartyInvitation]:
        return [invite for invite in invites if self._is_live(invite)]

    def _is_live(self, invite: PartyInvitation) -> bool:
        """Return whether the invite is valid: not expired, and its sender is still in the party."""
        if self.stored.now - invite.at >= INVITE_S:
            return False
        party = self.get(invite.party_id)
        return party is not None and invite.sender in party.members
