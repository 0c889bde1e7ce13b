"""The matchmaking data on the board."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from attrs import define, field, fields, frozen
from twisted.internet.defer import Deferred

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import PartyChanged
from svcserver.kernel.times import DAY_S
from svcserver.metagame.once import results
from svcserver.metagame.play.drain import is_draining
from svcserver.metagame.play.matches import Joined, Match, MatchEntry, MatchState, Sent, Server
from svcserver.metagame.play.matchmaking.launches import LaunchLimits
from svcserver.metagame.play.matchmaking.rules import ASKED_S, FORGET_S, LEFT_S, Matchmaker
from svcserver.metagame.social.parties.rules import PartyCandidate

T = TypeVar("T")


@frozen
class KeptEntry:
    """A ``MatchEntry`` as it is stored on the board (the live state)."""

    candidate_id: str
    mode: str
    hunt_id: str
    match_id: str
    hold_until: float


@frozen
class KeptMatch:
    """The immutable form of a ``Match`` for the board; its fields have the same names."""

    id: str
    mode: str
    hunt_id: str
    args: str
    players: tuple[AccountId, ...]
    expects: bool
    created_at: float
    party_id: str | None
    leader: AccountId | None
    joined_at: float
    state: MatchState
    server: Server | None
    asking_until: float
    queued: bool
    retry_at: float
    refused_at: float | None
    ready_at: float
    sent_at: float | None
    known_as: Mapping[AccountId, str]
    told: frozenset[AccountId]
    elsewhere: Mapping[AccountId, float]
    counts_for: frozenset[AccountId]
    ended: bool

    @classmethod
    def from_match(cls, match: Match) -> KeptMatch:
        return cls(**_converted(match, {list: tuple, set: frozenset, dict: dict}))

    def opened(self) -> Match:
        """Return the match as a mutable ``Match``, which the rules need."""
        return Match(**_converted(self, {tuple: list, frozenset: set, dict: dict}))


def _converted(
    match: Match | KeptMatch, types: Mapping[type, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Return a match's fields as a dict; convert each collection to another type.

    ``types`` maps a type of collection to the function that converts such collections.
    """
    values = ((name, getattr(match, name)) for name in MATCH_FIELDS)
    return {
        name: types[type(value)](value) if type(value) in types else value for name, value in values
    }


MATCH_FIELDS = tuple(attribute.name for attribute in fields(KeptMatch))

# a match outlives the entries that refer to it
MATCHES = Kind("matches", KeptMatch, lives_s=2 * FORGET_S, kept_by_reading=True)
PLACES = Kind("candidates", KeptEntry, lives_s=FORGET_S)
QUEUES = Kind("queues", str, lives_s=FORGET_S)
PARTY_HUNTS = Kind("party_hunts", str, lives_s=FORGET_S)
SENT = Kind("sent_to", Sent, lives_s=DAY_S)
RESULTS = results("candidate_results", Joined)
LEFT = Kind("left_server", Server, lives_s=LEFT_S)
LAUNCHES_OF = Kind("launches_of", tuple[str, ...], lives_s=FORGET_S)
LAUNCH_ON = Kind("launch_on", str, lives_s=FORGET_S)


@define
class BoardMatches:
    """Reads and changes matches in one transaction; call ``save`` before the transaction ends."""

    transaction: BoardTransaction
    _loaded: dict[str, tuple[KeptMatch | None, Match]] = field(factory=dict, init=False)

    @property
    def now(self) -> float:
        return self.transaction.now

    @property
    def draining(self) -> bool:
        return is_draining(self.transaction)

    def new_id(self) -> str:
        return self.transaction.new_id()

    def save(self) -> None:
        """Store the changed matches; delete matches that all players left before the launch."""
        for match_id, (before, match) in self._loaded.items():
            if match.is_deserted:
                self.transaction.drop(MATCHES, match_id)
            elif before is None or before.opened() != match:
                self.transaction.put(MATCHES, match_id, KeptMatch.from_match(match))

    def match(self, match_id: str) -> Match | None:
        if match_id in self._loaded:
            return self._loaded[match_id][1]
        stored = self.transaction.get(MATCHES, match_id)
        if stored is None:
            return None
        match = stored.opened()
        self._loaded[match_id] = stored, match
        return match

    def add(self, match: Match) -> None:
        self._loaded[match.id] = None, match

    def entry(self, player: AccountId) -> MatchEntry | None:
        place = self.transaction.get(PLACES, player)
        match = None if place is None else self.match(place.match_id)
        if place is None or match is None:
            return None
        return MatchEntry(place.candidate_id, place.mode, place.hunt_id, match, place.hold_until)

    def place(self, player: AccountId, entry: MatchEntry | None) -> None:
        if entry is None:
            self.transaction.drop(PLACES, player)
            return
        known = entry.candidate_id, entry.mode, entry.hunt_id
        self.transaction.put(PLACES, player, KeptEntry(*known, entry.match.id, entry.hold_until))

    def queue(self, hunt_id: str) -> Match | None:
        return self._named(QUEUES, hunt_id)

    def set_queue(self, hunt_id: str, match: Match | None) -> None:
        self._name(QUEUES, hunt_id, match)

    def of_party(self, party_id: str) -> Match | None:
        return self._named(PARTY_HUNTS, party_id)

    def set_party(self, party_id: str, match: Match | None) -> None:
        self._name(PARTY_HUNTS, party_id, match)

    def sent(self, player: AccountId) -> Sent | None:
        return self.transaction.get(SENT, player)

    def set_sent(self, player: AccountId, sent: Sent | None) -> None:
        if sent is None:
            self.transaction.drop(SENT, player)
        else:
            self.transaction.put(SENT, player, sent)

    def left(self, player: AccountId) -> Server | None:
        return self.transaction.get(LEFT, player)

    def set_left(self, player: AccountId, server: Server) -> None:
        self.transaction.put(LEFT, player, server)

    def held(self, holder: str) -> list[Match]:
        ids: tuple[str, ...] = self.transaction.get(LAUNCHES_OF, holder) or ()
        matches = map(self.match, ids)
        return [match for match in matches if match is not None]

    def hold(self, holder: str, matches: list[Match]) -> None:
        self.transaction.put(LAUNCHES_OF, holder, tuple(match.id for match in matches))

    def launched_on(self, server: Server) -> Match | None:
        return self._named(LAUNCH_ON, f"{server.port}")

    def set_launched_on(self, server: Server, match: Match) -> None:
        self._name(LAUNCH_ON, f"{server.port}", match)  # on any machine of a swarm

    def _named(self, kind: Kind[str], key: str) -> Match | None:
        match_id = self.transaction.get(kind, key)
        return None if match_id is None else self.match(match_id)

    def _name(self, kind: Kind[str], key: str, match: Match | None) -> None:
        if match is None:
            self.transaction.drop(kind, key)
        else:
            self.transaction.put(kind, key, match.id)


@frozen
class LiveMatches:
    """Reads and changes the matches on the board (the live state).

    ``cooldown_s`` returns the current cooldown of ``LaunchLimits``. If a worker has not renewed its
    launch request for ``asked_s`` seconds, the request counts as abandoned.
    """

    board: Board
    cooldown_s: Callable[[], float] = lambda: 0.0
    asked_s: float = ASKED_S

    @contextmanager
    def rules_on(self, transaction: BoardTransaction) -> Iterator[Matchmaker]:
        """Yield the rules for an open transaction; store the changes when the block ends.

        Each call has its own copies of the matches. So do not nest blocks that change matches.
        """
        stored = BoardMatches(transaction)
        yield Matchmaker(stored, LaunchLimits(stored, self.cooldown_s()), self.asked_s)
        stored.save()

    def transact(self, work: Callable[[Matchmaker], T]) -> Deferred[T]:
        """Call ``work(matchmaker)`` in a board transaction, and return its result."""

        def job(transaction: BoardTransaction) -> T:
            with self.rules_on(transaction) as matchmaker:
                return work(matchmaker)

        return self.board.transact(job)

    def on_match(self, match_id: str, work: Callable[[Matchmaker, Match], T]) -> Deferred[T | None]:
        """Run ``work`` on a match in a board transaction; return None for an unknown match."""

        def job(matchmaker: Matchmaker) -> T | None:
            match = matchmaker.stored.match(match_id)
            return None if match is None else work(matchmaker, match)

        return self.transact(job)

    def forget(self, player: AccountId) -> Deferred[None]:
        """Delete the matchmaking data of a player whose sessions have ended."""
        return self.transact(lambda matchmaker: matchmaker.forget(player))

    def sent_to(self, players: Iterable[AccountId]) -> Deferred[dict[AccountId, Sent]]:
        """Return a dict from player to the game server to which the player was sent last.

        Players for whom ``Matchmaker.last_sent`` returns None are left out.
        """
        wanted = list(players)

        def work(matchmaker: Matchmaker) -> dict[AccountId, Sent]:
            servers = ((player, matchmaker.last_sent(player)) for player in wanted)
            return {player: sent for player, sent in servers if sent is not None}

        return self.transact(work)

    def players_on(
        self, server: Server, players: Collection[AccountId], match_id: str = ""
    ) -> Deferred[frozenset[AccountId]]:
        """Return the result of ``Matchmaker.players_on``, from a new board transaction."""
        return self.transact(lambda matchmaker: matchmaker.players_on(server, players, match_id))

    def left_party(self, transaction: BoardTransaction, news: PartyChanged) -> None:
        """Remove players from their old party's match, in an open transaction."""
        with self.rules_on(transaction) as matchmaker:
            matchmaker.left_party(news.party_id, news.left)

    def of_party(self, transaction: BoardTransaction, party_id: str) -> PartyCandidate | None:
        """Return the party's search for a game server, as the party poll shows it."""
        with self.rules_on(transaction) as matchmaker:
            return matchmaker.of_party(party_id)
