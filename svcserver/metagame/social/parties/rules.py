"""Rules of parties and their invites. Spec: 1 §3, §4 Parties, §8.

Live state: these rules run on one open ``BoardParties``, whose entries end by themselves. Any of
them may be missing, and who has been silent too long is dropped when the party is read.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from attrs import define, evolve, frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Missing

if TYPE_CHECKING:
    from svcserver.metagame.social.parties.store import BoardParties

MAX_MEMBERS = 4
MAX_PARTY_INVITES = 8
MAX_RECEIVED_INVITES = 10
MAX_SENT = 20
SENT_S = 600.0
INVITE_S = 300.0
DECLINE_PAUSE_S = 120.0
SILENT_S = 120.0
FORGET_S = 3600.0  # a party of one whose player has been silent this long is forgotten
NEVER = float("-inf")


@frozen
class Party:
    """One to four players in join order, one of whom leads."""

    id: str
    leader: AccountId
    members: tuple[AccountId, ...]

    @property
    def is_solo(self) -> bool:
        """Whether it has one member only, as everybody's party has at first."""
        return len(self.members) == 1


@frozen
class Invite:
    """``sender`` wants ``recipient`` in ``party_id``; lives five minutes."""

    party_id: str
    sender: AccountId
    recipient: AccountId
    at: float


@frozen
class PartyCandidate:
    """What a party is waiting for or was sent to: MATCHING or IN_PROGRESS."""

    id: str
    state: str
    hunt_id: str
    members: frozenset[AccountId]


@frozen
class Standing:
    """A party, and what one of two or more waits for or was sent to."""

    party: Party
    candidate: PartyCandidate | None


@define
class Parties:
    """What may happen to parties and invites, decided on the entries of one open act of the board.

    Refusals are raised; what changes is written through ``stored`` and undone by raising.
    """

    stored: BoardParties

    # -- being there -------------------------------------------------------

    def hear(self, account_id: AccountId) -> None:
        """A sign of life keeps a member in the party."""
        self.stored.hear(account_id)

    def poll(self, account_id: AccountId) -> Party:
        """The player's party; a new one of one where there is none."""
        self.stored.hear(account_id)
        party = self.of(account_id)
        if party is None:
            party = Party(self.stored.new_id(), account_id, (account_id,))
            self.stored.keep(party)
            self.stored.place(account_id, party.id)
        return party

    def refresh(self, account_id: AccountId) -> Party | None:
        """A sign of life, and the player's party."""
        self.stored.hear(account_id)
        return self.of(account_id)

    def of(self, account_id: AccountId) -> Party | None:
        """The player's party as it is now, or None."""
        party_id = self.stored.party_of(account_id)
        party = None if party_id is None else self.get(party_id)
        return party if party is not None and account_id in party.members else None

    def of_all(self, account_ids: Collection[AccountId]) -> list[Party]:
        """The parties of these players, each once."""
        found = [self.of(one) for one in account_ids]
        return list({party.id: party for party in found if party is not None}.values())

    def standing(self, party: Party) -> Standing:
        """The party, and what it waits for or was sent to."""
        return Standing(party, None if party.is_solo else self.stored.candidate(party.id))

    def get(self, party_id: str) -> Party | None:
        """A party by its id, or None."""
        party = self.stored.party(party_id)
        return None if party is None else self._settled(party)

    def _settled(self, party: Party) -> Party | None:
        """Drop who has been silent for more than two minutes, the longest silent first."""
        now = self.stored.now
        if not party.is_solo:
            heard = {one: self._heard(one) for one in party.members}
            silent = sorted(
                (one for one in heard if now - heard[one] > SILENT_S), key=heard.__getitem__
            )
            for one in silent[: len(party.members) - 1]:
                party = self._remove(one, party) or party
        if party.is_solo and now - self._heard(party.leader) > FORGET_S:
            return self._remove(party.leader, party)
        return party

    def _heard(self, account_id: AccountId) -> float:
        heard = self.stored.heard(account_id)
        return NEVER if heard is None else heard

    # -- invites -----------------------------------------------------------

    def invites_to(self, recipient: AccountId) -> list[Invite]:
        """The player's live invites, oldest first."""
        return self._live(self.stored.received(recipient))

    def invite(
        self,
        sender: AccountId,
        recipient: AccountId,
        *,
        blocked: bool = False,
    ) -> Party:
        """Invite an existing account into the sender's party, or refuse."""
        if sender == recipient:
            raise Conflict("that is yourself")
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
        if self.stored.pauses(sender, recipient):
            raise Conflict("that player has just declined")
        if not self.stored.count_sent(sender):
            raise Conflict("too many invites, try again later")
        self._keep(Invite(party.id, sender, recipient, self.stored.now))
        return party

    def _check_counts(self, party: Party, recipient: AccountId) -> None:
        received = self.invites_to(recipient)
        if any(one.party_id == party.id for one in received):
            raise Conflict("already invited")
        if len(self._live(self.stored.pending(party.id))) >= MAX_PARTY_INVITES:
            raise Conflict("the party has too many open invites")
        if len(received) >= MAX_RECEIVED_INVITES:
            raise Conflict("that player has too many open invites")

    def invite_named(self, recipient: AccountId, named: str) -> Invite | None:
        """The player's live invite of that party or from that sender."""
        for one in self.invites_to(recipient):
            if named in (one.party_id, one.sender):
                return one
        return None

    def accept(self, invite: Invite) -> Party:
        """Leave the old party and join at the end; Missing when the invite has ended."""
        self.hear(invite.recipient)
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
        """The party of two or more that the player is in already and ``named`` means."""
        party = self.refresh(account_id)
        if party is None or party.is_solo or named == account_id:
            raise Missing("no such invite")
        if named != party.id and named not in party.members:
            raise Missing("no such invite")
        return party

    def decline(self, recipient: AccountId, named: Collection[str]) -> bool:
        """Decline what matches by party or sender; the sender pauses for two minutes."""
        found = [
            one
            for one in self.invites_to(recipient)
            if one.party_id in named or one.sender in named
        ]
        for one in found:
            self._drop(one)
            self.stored.pause(one.sender, recipient)
        return bool(found)

    def withdraw(self, sender: AccountId, recipient: AccountId) -> bool:
        """Take back one's own invite; whether there was one."""
        found = [one for one in self.stored.received(recipient) if one.sender == sender]
        for one in found:
            self._drop(one)
        return bool(found)

    def part(self, one: AccountId, other: AccountId) -> None:
        """Invites between the two end; a party they share stays."""
        self.withdraw(one, other)
        self.withdraw(other, one)

    # -- leaving and leading -----------------------------------------------

    def leave(self, account_id: AccountId) -> None:
        """Leave; nothing happens without a party. A party of one ends."""
        party_id = self.stored.party_of(account_id)
        party = None if party_id is None else self.stored.party(party_id)
        if party is not None and account_id in party.members:
            self._remove(account_id, party)

    def kick(self, leader: AccountId, member: AccountId) -> None:
        """Remove a member, who must be one; naming oneself is leaving."""
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
            raise Forbidden("only the party's leader hands over")
        if member not in party.members:
            raise Missing("not in your party")
        self.stored.keep(evolve(party, leader=member))

    # -- inside ------------------------------------------------------------

    def _remove(self, account_id: AccountId, party: Party) -> Party | None:
        """The party without the member; None when that was the last."""
        if self.stored.party_of(account_id) == party.id:
            self.stored.place(account_id, None)
        for invite in self.stored.pending(party.id):
            if invite.sender == account_id or party.is_solo:
                self._drop(invite)
        rest = tuple(one for one in party.members if one != account_id)
        left = None
        if rest:
            leader = party.leader if party.leader != account_id else rest[0]
            left = Party(party.id, leader, rest)
            self.stored.keep(left)
        else:
            self.stored.end(party.id)
        self.stored.left(party.id, account_id)
        return left

    def _keep(self, invite: Invite) -> None:
        self._drop(invite)  # an expired one would keep its old place
        received = self.stored.received(invite.recipient)
        pending = self.stored.pending(invite.party_id)
        self.stored.keep_received(invite.recipient, self._fresh(received, invite))
        self.stored.keep_pending(invite.party_id, self._fresh(pending, invite))

    def _fresh(self, kept: tuple[Invite, ...], invite: Invite) -> tuple[Invite, ...]:
        return (*(one for one in kept if self.stored.now - one.at < INVITE_S), invite)

    def _drop(self, invite: Invite) -> None:
        """End the invite of that party to that player."""
        received = self.stored.received(invite.recipient)
        rest = tuple(one for one in received if one.party_id != invite.party_id)
        if rest != received:
            self.stored.keep_received(invite.recipient, rest)
        pending = self.stored.pending(invite.party_id)
        rest = tuple(one for one in pending if one.recipient != invite.recipient)
        if rest != pending:
            self.stored.keep_pending(invite.party_id, rest)

    def _live(self, invites: tuple[Invite, ...]) -> list[Invite]:
        return [one for one in invites if self._is_live(one)]

    def _is_live(self, invite: Invite) -> bool:
        """Not expired, and its sender (if silent, no longer a member) is still there."""
        if self.stored.now - invite.at >= INVITE_S:
            return False
        party = self.get(invite.party_id)
        return party is not None and invite.sender in party.members
