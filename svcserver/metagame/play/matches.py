"""The matches that players join; each match launches one game server. Spec: 1 §3."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from attrs import define, field, frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import CITY, LaunchRequest

CITY_PREFIX = "ShatteredIsles_ReturnTo"


class MatchState(StrEnum):
    """The state of a match in the reply to a status poll."""

    MATCHING = "MATCHING"
    IN_PROGRESS = "IN_PROGRESS"
    FAILED = "FAILED"


@frozen
class Server:
    """The game server to which players are sent."""

    host: str
    port: int
    node: str = ""  # the id of its machine in a swarm


class HuntGroup(Protocol):
    """A party of two to four members, with a leader."""

    @property
    def id(self) -> str: ...

    @property
    def leader(self) -> AccountId: ...

    @property
    def members(self) -> tuple[AccountId, ...]: ...


@define
class Match:
    """The launch of a game server for one or more players.

    The object is valid only within one transaction, which stores its changes.
    """

    id: str
    mode: str
    hunt_id: str
    args: str
    players: list[AccountId]
    expects: bool  # whether the request to the deploy server names the players
    created_at: float
    party_id: str | None = None
    leader: AccountId | None = None  # the party's leader
    joined_at: float = 0.0  # time of the last join
    state: MatchState = MatchState.MATCHING
    server: Server | None = None
    asking_until: float = 0.0  # the requesting worker renews it; 0: no request
    queued: bool = False
    retry_at: float = 0.0
    refused_at: float | None = None
    ready_at: float = 0.0
    sent_at: float | None = None
    known_as: dict[AccountId, str] = field(factory=dict)  # each player's candidate id
    told: set[AccountId] = field(factory=set)  # the players who have the server's address
    elsewhere: dict[AccountId, float] = field(
        factory=dict
    )  # when players asked for the city or the dojo after this launch
    counts_for: set[AccountId] = field(factory=set)  # players who are charged with the launch
    ended: bool = False  # the server is known to have ended

    @property
    def takes_a_port(self) -> bool:
        """Return whether the match starts its own game server, as hunts and tutorials do."""
        return self.expects or self.request().names_a_map

    @property
    def is_deserted(self) -> bool:
        """Return whether all players left before a game server was requested."""
        return not self.players and not self.asking_until and self.server is None

    def is_asking(self, now: float) -> bool:
        """Return whether a worker is requesting a game server for this match at the moment."""
        return now < self.asking_until

    def request(self) -> LaunchRequest:
        players = tuple(self.players) if self.expects else ()
        return LaunchRequest(self.mode, self.args, self.hunt_id, players)


@frozen
class MatchEntry:
    """A player's entry in a match, with the id by which the player's client knows the match."""

    candidate_id: str
    mode: str
    hunt_id: str
    match: Match
    hold_until: float = 0.0  # until then, clients see MATCHING although the server is known

    def state(self, now: float) -> MatchState:
        if self.match.state is MatchState.IN_PROGRESS and now < self.hold_until:
            return MatchState.MATCHING
        return self.match.state


@frozen
class Joined:
    """The result of a join, with the values that the reply contains."""

    candidate_id: str
    mode: str
    hunt_id: str
    match_id: str
    queued: bool

    @classmethod
    def from_entry(cls, entry: MatchEntry) -> Joined:
        """Return the result of a join that created this entry."""
        match = entry.match
        return cls(entry.candidate_id, entry.mode, entry.hunt_id, match.id, match.queued)


@frozen
class Sent:
    """The game server to which a player was sent last, and when."""

    server: Server
    hunt_id: str
    match_id: str
    at: float


class StoredMatches(Protocol):
    """The interface through which rules read and change matches in one board transaction.

    Within a transaction, all methods return the same object for a match. Changes to this object are
    stored at the end of the transaction.
    """

    @property
    def now(self) -> float: ...

    @property
    def draining(self) -> bool:
        """Return whether maintenance mode is on; while it is on, no new hunts begin."""

    def new_id(self) -> str: ...

    def match(self, match_id: str) -> Match | None: ...

    def add(self, match: Match) -> None: ...

    def entry(self, player: AccountId) -> MatchEntry | None: ...

    def place(self, player: AccountId, entry: MatchEntry | None) -> None: ...

    def queue(self, hunt_id: str) -> Match | None: ...

    def set_queue(self, hunt_id: str, match: Match | None) -> None: ...

    def of_party(self, party_id: str) -> Match | None: ...

    def set_party(self, party_id: str, match: Match | None) -> None: ...

    def sent(self, player: AccountId) -> Sent | None: ...

    def set_sent(self, player: AccountId, sent: Sent | None) -> None: ...

    def left(self, player: AccountId) -> Server | None:
        """Return the game server that the player left less than ``LEFT_S`` seconds ago, if any."""

    def set_left(self, player: AccountId, server: Server) -> None: ...

    def held(self, holder: str) -> list[Match]:
        """Return the launches that count towards the limit of an account or party, newest last.

        ``launches.py`` defines this limit.
        """

    def hold(self, holder: str, matches: list[Match]) -> None: ...

    def launched_on(self, server: Server) -> Match | None:
        """Return the match that was launched last on that game server."""

    def set_launched_on(self, server: Server, match: Match) -> None: ...


def takes_a_port(request: LaunchRequest) -> bool:
    """Return whether the request needs its own game server, as hunts and tutorials do."""
    return request.names_a_map or not is_world(request)


def is_world(request: LaunchRequest) -> bool:
    """Return whether the request is for the city or the dojo, which need no queue."""
    hunt = request.hunt_id
    return not hunt or request.game_mode == CITY or hunt.startswith(CITY_PREFIX) or "Dojo" in hunt
