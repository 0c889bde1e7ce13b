"""The parties on the board; entries have a lifetime, and their number is limited."""

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
from svcserver.metagame.social.parties import rules

T = TypeVar("T")
Left = Callable[[BoardTransaction, PartyChanged], None]
Candidate = Callable[[BoardTransaction, str], rules.PartyCandidate | None]

# a day is enough: members poll every few seconds; the rules remove silent members much earlier
PARTIES = Kind("parties", rules.Party, lives_s=DAY_S, kept_by_reading=True)
PARTY_OF = Kind("party_of", str, lives_s=DAY_S, kept_by_reading=True)
# not sealed: a forged entry only keeps a silent member in the party
LAST_POLL = Kind("party_heard", float, lives_s=DAY_S, compared=False, sealed=False)
RECEIVED = Kind("party_invites_to", tuple[rules.PartyInvitation, ...], lives_s=rules.INVITE_S)
PENDING = Kind("party_invites_of", tuple[rules.PartyInvitation, ...], lives_s=rules.INVITE_S)
SENT = Quota.named("party_invites_sent", rules.MAX_SENT, rules.SENT_S)
DECLINED = Kind("party_declined", float, lives_s=rules.DECLINE_PAUSE_S, most=MOST)
RESULTS = results("party_results", rules.PartyState)


@define
class BoardParties:
    """The stored parties and invites, inside one transaction on the board (the live state)."""

    transaction: BoardTransaction
    also_left: tuple[Left, ...]
    candidate_of: Candidate

    @property
    def now(self) -> float:
        return self.transaction.now

    def new_id(self) -> str:
        return self.transaction.new_id()

    def party(self, party_id: str) -> rules.Party | None:
        return self.transaction.get(PARTIES, party_id)

    def keep(self, party: rules.Party) -> None:
        self.transaction.put(PARTIES, party.id, party)

    def end(self, party_id: str) -> None:
        self.transaction.drop(PARTIES, party_id)

    def party_id_of(self, account_id: AccountId) -> str | None:
        return self.transaction.get(PARTY_OF, account_id)

    def place(self, account_id: AccountId, party_id: str | None) -> None:
        if party_id is None:
            self.transaction.drop(PARTY_OF, account_id)
        else:
            self.transaction.put(PARTY_OF, account_id, party_id)

    def last_seen(self, account_id: AccountId) -> float | None:
        return self.transaction.get(LAST_POLL, account_id)

    def mark_seen(self, account_id: AccountId) -> None:
        mark_seen(self.transaction, account_id)

    def received(self, recipient: AccountId) -> tuple[rules.PartyInvitation, ...]:
        """Return the invites to a recipient, oldest first; some may have expired."""
        return self.transaction.get(RECEIVED, recipient) or ()

    def keep_received(
        self, recipient: AccountId, invites: tuple[rules.PartyInvitation, ...]
    ) -> None:
        self._keep(RECEIVED, recipient, invites)

    def pending(self, party_id: str) -> tuple[rules.PartyInvitation, ...]:
        """Return the party's unanswered invites."""
        return self.transaction.get(PENDING, party_id) or ()

    def keep_pending(self, party_id: str, invites: tuple[rules.PartyInvitation, ...]) -> None:
        self._keep(PENDING, party_id, invites)

    def _keep(
        self,
        kind: Kind[tuple[rules.PartyInvitation, ...]],
        key: str,
        invites: tuple[rules.PartyInvitation, ...],
    ) -> None:
        if invites:
            self.transaction.put(kind, key, invites)
        else:
            self.transaction.drop(kind, key)

    def count_sent(self, sender: AccountId) -> bool:
        """Count an invite; return False if the sender has reached the quota."""
        return SENT.take(self.transaction, sender) is not None

    def is_paused(self, sender: AccountId, recipient: AccountId) -> bool:
        """Return whether the recipient declined this sender within the last two minutes."""
        return self.transaction.get(DECLINED, f"{sender} {recipient}") is not None

    def pause(self, sender: AccountId, recipient: AccountId) -> None:
        self.transaction.put(DECLINED, f"{sender} {recipient}", self.transaction.now)

    def left(self, party_id: str, account_id: AccountId) -> None:
        news = PartyChanged(party_id, (account_id,))
        self.transaction.publish(news)
        for follow in self.also_left:
            follow(self.transaction, news)

    def candidate(self, party_id: str) -> rules.PartyCandidate | None:
        return self.candidate_of(self.transaction, party_id)


def _no_candidate(transaction: BoardTransaction, party_id: str) -> rules.PartyCandidate | None:
    return None


@frozen
class LiveParties:
    """Reads and changes the parties on the board (the live state).

    The ``also_left`` functions run in the transaction in which a player leaves a party.
    ``candidate`` returns the hunt that a party waits for or was sent to.
    """

    board: Board
    also_left: tuple[Left, ...] = ()
    candidate: Candidate = _no_candidate

    def rules_on(self, transaction: BoardTransaction) -> rules.Parties:
        """Return the party rules for an open transaction of the live state."""
        return rules.Parties(BoardParties(transaction, self.also_left, self.candidate))

    def transact_with_rules(
        self, work: Callable[[rules.Parties], T], near: Iterable[Key] = (), attempt: Attempt = ONLY
    ) -> Deferred[T]:
        """Call ``work`` with the party rules, in a new transaction of the live state."""
        return attempt.transact(
            self.board, lambda transaction: work(self.rules_on(transaction)), RESULTS, near
        )

    def party_of(self, account_id: AccountId) -> Deferred[rules.Party | None]:
        """Return the player's current party, or None."""
        return self.transact_with_rules(
            lambda parties: parties.party_of(account_id), near(account_id)
        )

    def part(self, first: AccountId, second: AccountId) -> Deferred[None]:
        """End the invites between two players after one has blocked the other."""
        return self.transact_with_rules(lambda parties: parties.part(first, second))

    def leave(self, account_id: AccountId) -> Deferred[None]:
        """Remove the player from the player's party."""
        return self.transact_with_rules(lambda parties: parties.leave(account_id), near(account_id))


def mark_seen(transaction: BoardTransaction, account_id: AccountId) -> None:
    """Record that the player is active, even if the player has no party.

    The function reads nothing, so it causes no conflict with other transactions.
    """
    transaction.put(LAST_POLL, account_id, transaction.now)


def near(*account_ids: AccountId) -> list[Key]:
    """Return the board keys that every transaction about these players reads."""
    return [(PARTY_OF, account_id) for account_id in account_ids]
