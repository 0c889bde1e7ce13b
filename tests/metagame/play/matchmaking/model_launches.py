"""A simple store of matches and launches for the model of matchmaking."""

from collections.abc import Collection, Iterable

from attrs import define, field, frozen
from cachetools import LRUCache

from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.metagame.play.matches import MatchState, Server

FORGET_S = 3600.0
AT_ONCE = 2
EMPTY_S = 120.0  # an empty game server ends within a minute
MAX_HOLDERS = 100_000


@define(eq=False)
class Match:
    """One launch for one or more players."""

    id: str
    mode: str
    hunt_id: str
    args: str
    players: list[AccountId]
    expects: bool  # whether the deploy server gets the list of expected players
    created_at: float
    party_id: str | None = None
    leader: AccountId | None = None  # of the party
    joined_at: float = 0.0  # when the last player joined
    state: MatchState = MatchState.MATCHING
    server: Server | None = None
    asking: bool = False
    queued: bool = False
    retry_at: float = float("-inf")
    refused_at: float | None = None
    ready_at: float = 0.0
    sent_at: float | None = None
    known_as: dict[AccountId, str] = field(factory=dict)  # each player's candidate id
    told: set[AccountId] = field(factory=set)  # players who have received the server's address
    elsewhere: dict[AccountId, float] = field(factory=dict)  # when a player asked for city or dojo
    # players who can start no other launch meanwhile
    counts_for: set[AccountId] = field(factory=set)
    ended: bool = False  # the server is known to have ended

    @property
    def takes_a_port(self) -> bool:
        """Return whether the match starts its own game server, as hunts and tutorials do."""
        return self.expects or self.request().names_a_map

    def request(self) -> LaunchRequest:
        """Return the request for the deploy server."""
        players = tuple(self.players) if self.expects else ()
        return LaunchRequest(self.mode, self.args, self.hunt_id, players)


@frozen
class MatchEntry:
    """A player's entry: the match, and the candidate id that the player received."""

    candidate_id: str
    mode: str
    hunt_id: str
    match: Match
    seen_at: float
    hold_until: float = 0.0  # answers MATCHING until then, though the server is known

    def state(self, now: float) -> MatchState:
        """Return the match state that this player sees."""
        if self.match.state is MatchState.IN_PROGRESS and now < self.hold_until:
            return MatchState.MATCHING
        return self.match.state


@define
class Launches:
    """The launches of each account and party; with ``cooldown_s`` 0, no launch prevents another."""

    cooldown_s: float
    _of: LRUCache[str, list[Match]] = field(  # the newest launch is the last one
        factory=lambda: LRUCache(MAX_HOLDERS), init=False
    )
    _on: dict[Server, Match] = field(factory=dict, init=False)

    def begun(self, match: Match, now: float) -> None:
        """Record a launch for the party and for each player who has no launch."""
        if not match.takes_a_port or not self.cooldown_s:
            return
        match.counts_for = {
            player for player in match.players if not self._of_player(player, match, now)
        }
        for holder in _holders(match):
            self._of[holder] = [*self._others(holder, match), match]

    def ready(self, match: Match, server: Server) -> None:
        """Record the server on which the match runs; earlier matches on that server have ended."""
        before = self._on.get(server)
        if before is not None and before is not match:
            before.ended = True
        if match.takes_a_port:
            self._on[server] = match

    def running(self, match: Match) -> list[Match]:
        """Return the matches whose running servers must end before this match can start."""
        live = (launch for holder in _holders(match) for launch in self._live(holder))
        return [
            launch
            for launch in live
            if launch is not match and launch.state is MatchState.IN_PROGRESS
        ]

    def elsewhere(self, player: AccountId, now: float) -> None:
        """Record that the player asked for the city or the dojo."""
        for match in self._live(player):
            match.elsewhere.setdefault(player, now)
            if len(match.counts_for) > 1:
                match.counts_for.discard(player)

    def in_the_way(self, match: Match, now: float) -> dict[AccountId, Match]:
        """Return each player's earlier launch, or an empty dict if the match may start.

        The match may start if its party has no other launch, and if at least one of its players has
        no other launch.
        """
        if not match.takes_a_port or not self.cooldown_s:
            return {}
        party = self._newest(self._others(match.party_id or "", match), now)
        if party is not None:
            return dict.fromkeys(match.players, party)
        blocking = {}
        for player in match.players:
            own = self._of_player(player, match, now)
            if own is None:
                return {}
            blocking[player] = own
        return blocking

    def sweep(self, now: float) -> None:
        """Forget ended and outdated launches."""
        for holder in list(self._of):
            left = [match for match in self._live(holder) if now - match.created_at < FORGET_S]
            if left:
                self._of[holder] = left
            else:
                del self._of[holder]
        for server, match in list(self._on.items()):
            if match.ended or now - match.created_at >= FORGET_S:
                del self._on[server]

    def _of_player(self, player: AccountId, asking: Match, now: float) -> Match | None:
        live = self._others(player, asking)
        for match in live:
            if player in match.counts_for and not _is_held_by_another(match, player, now):
                return match
        return self._newest(live, now)

    def _newest(self, live: list[Match], now: float) -> Match | None:
        """Return the holder's newest launch if it prevents another launch, else None."""
        if not live:
            return None
        newest = live[-1]
        if newest.asking or now - newest.ready_at < self.cooldown_s or len(live) >= AT_ONCE:
            return newest
        return None

    def _others(self, holder: str, asking: Match) -> list[Match]:
        return [match for match in self._live(holder) if match is not asking]

    def _live(self, holder: str) -> list[Match]:
        return [match for match in self._of.get(holder, ()) if _is_live(match)]


def end_those_not_on(matches: Iterable[Match], ports: Collection[int]) -> None:
    """Mark matches as ended if their server is not among the running servers."""
    for match in matches:
        if match.server is not None and match.server.port not in ports:
            match.ended = True


def _is_held_by_another(match: Match, player: AccountId, now: float) -> bool:
    left_at = match.elsewhere.get(player)
    return left_at is not None and len(match.players) > 1 and now - left_at >= EMPTY_S


def _is_live(match: Match) -> bool:
    return not match.ended and (match.asking or match.state is MatchState.IN_PROGRESS)


def _holders(match: Match) -> list[str]:
    return [*match.players, *([match.party_id] if match.party_id is not None else [])]
