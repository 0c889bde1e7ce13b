"""Parties on the board: what is kept, how long, and how much of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from attrs import define, frozen
from twisted.internet.defer import Deferred

from svcserver.board.board import Board, BoardTransaction, Key
from svcserver.board.kinds import Kind
from svcserver.board.quota import MOST, Quota
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import PartyChanged
from svcserver.kernel.times import DAY_S
from svcserver.metagame.once import ONLY, Attempt, results
from svcserver.metagame.social.parties.rules import (
    DECLINE_PAUSE_S,
    INVITE_S,
    MAX_SENT,
    SENT_S,
    Invite,
    Parties,
    Party,
    PartyCandidate,
    Standing,
)

T = TypeVar("T")
Left = Callable[[BoardTransaction, PartyChanged], None]
Candidate = Callable[[BoardTransaction, str], PartyCandidate | None]

# a day: rules drop and forget long before; members poll every few seconds
PARTIES = Kind("parties", Party, lives_s=DAY_S, kept_by_reading=True)
PARTY_OF = Kind("party_of", str, lives_s=DAY_S, kept_by_reading=True)
# grants nothing: a forged one keeps a member in the party who is not heard of any more
HEARD = Kind("party_heard", float, lives_s=DAY_S, compared=False, sealed=False)
RECEIVED = Kind("party_invites_to", tuple[Invite, ...], lives_s=INVITE_S)
PENDING = Kind("party_invites_of", tuple[Invite, ...], lives_s=INVITE_S)
SENT = Quota.of("party_invites_sent", MAX_SENT, SENT_S)
DECLINED = Kind("party_declined", float, lives_s=DECLINE_PAUSE_S, most=MOST)
RESULTS = results("party_results", Standing)


@define
class BoardParties:
    """Stored parties and invites, inside one act; the last two as in ``LiveParties``."""

    transaction: BoardTransaction
    also_left: tuple[Left, ...]
    candidate_of: Candidate

    @property
    def now(self) -> float:
        return self.transaction.now

    def new_id(self) -> str:
        return self.transaction.new_id()

    def party(self, party_id: str) -> Party | None:
        return self.transaction.get(PARTIES, party_id)

    def keep(self, party: Party) -> None:
        self.transaction.put(PARTIES, party.id, party)

    def end(self, party_id: str) -> None:
        self.transaction.drop(PARTIES, party_id)

    def party_of(self, account_id: AccountId) -> str | None:
        return self.transaction.get(PARTY_OF, account_id)

    def place(self, account_id: AccountId, party_id: str | None) -> None:
        if party_id is None:
            self.transaction.drop(PARTY_OF, account_id)
        else:
            self.transaction.put(PARTY_OF, account_id, party_id)

    def heard(self, account_id: AccountId) -> float | None:
        """When the last sign of life came."""
        return self.transaction.get(HEARD, account_id)

    def hear(self, account_id: AccountId) -> None:
        """A sign of life, now; kept blindly, with a party or without."""
        hear(self.transaction, account_id)

    def received(self, recipient: AccountId) -> tuple[Invite, ...]:
        """Invites by recipient, the oldest first; some may have expired."""
        return self.transaction.get(RECEIVED, recipient) or ()

    def keep_received(self, recipient: AccountId, invites: tuple[Invite, ...]) -> None:
        self._keep(RECEIVED, recipient, invites)

    def pending(self, party_id: str) -> tuple[Invite, ...]:
        """The invites that a party has sent and nobody has answered."""
        return self.transaction.get(PENDING, party_id) or ()

    def keep_pending(self, party_id: str, invites: tuple[Invite, ...]) -> None:
        self._keep(PENDING, party_id, invites)

    def _keep(self, kind: Kind[tuple[Invite, ...]], key: str, invites: tuple[Invite, ...]) -> None:
        if invites:
            self.transaction.put(kind, key, invites)
        else:
            self.transaction.drop(kind, key)

    def count_sent(self, sender: AccountId) -> bool:
        """Count an invite; False when the sender has sent as many as they may."""
        return SENT.take(self.transaction, sender) is not None

    def pauses(self, sender: AccountId, recipient: AccountId) -> bool:
        """Whether the recipient has declined this sender a moment ago."""
        return self.transaction.get(DECLINED, f"{sender} {recipient}") is not None

    def pause(self, sender: AccountId, recipient: AccountId) -> None:
        self.transaction.put(DECLINED, f"{sender} {recipient}", self.transaction.now)

    def left(self, party_id: str, account_id: AccountId) -> None:
        news = PartyChanged(party_id, (account_id,))
        self.transaction.publish(news)
        for follow in self.also_left:
            follow(self.transaction, news)

    def candidate(self, party_id: str) -> PartyCandidate | None:
        return self.candidate_of(self.transaction, party_id)


def _no_candidate(transaction: BoardTransaction, party_id: str) -> PartyCandidate | None:
    return None


@frozen
class LiveParties:
    """The parties for whoever asks: of a transaction that is open, or in an act of their own.

    ``also_left``: what follows a leaving in the same transaction; ``candidate``: what a party
    waits for.
    """

    board: Board
    also_left: tuple[Left, ...] = ()
    candidate: Candidate = _no_candidate

    def on(self, transaction: BoardTransaction) -> Parties:
        """The rules of parties on an open transaction of the board."""
        return Parties(BoardParties(transaction, self.also_left, self.candidate))

    def act(
        self, work: Callable[[Parties], T], near: Iterable[Key] = (), attempt: Attempt = ONLY
    ) -> Deferred[T]:
        """Run ``work`` on parties in an act of its own."""
        return attempt.act(
            self.board, lambda transaction: work(self.on(transaction)), RESULTS, near
        )

    def of(self, account_id: AccountId) -> Deferred[Party | None]:
        """The player's party as it is now, or None."""
        return self.act(lambda parties: parties.of(account_id), near(account_id))

    def hear(self, account_id: AccountId) -> Deferred[None]:
        """A sign of life; blind, so it never runs again."""
        return self.board.transact(lambda transaction: hear(transaction, account_id))

    def part(self, one: AccountId, other: AccountId) -> Deferred[None]:
        """Take two apart of whom one has blocked the other."""
        return self.act(lambda parties: parties.part(one, other))

    def leave(self, account_id: AccountId) -> Deferred[None]:
        """Let the player leave whatever party they are in."""
        return self.act(lambda parties: parties.leave(account_id), near(account_id))


def hear(transaction: BoardTransaction, account_id: AccountId) -> None:
    """A sign of life on an open transaction."""
    transaction.put(HEARD, account_id, transaction.now)


def near(*account_ids: AccountId) -> list[Key]:
    """What is read of these players for sure."""
    return [(PARTY_OF, one) for one in account_ids]
