"""Who waits for what, and when a group is launched. Spec: 1 §3 Matchmaking candidate, §4.

Live state in memory, plain objects that take ``now`` (seconds): a restart forgets queues
and candidates. Launching itself is somebody else's work: these rules say when.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from attrs import define, evolve, field, frozen

from svcserver.kernel.ids import AccountId, new_id
from svcserver.kernel.launch_requests import CITY, CITY_PREFIX, ISLAND, SHARED, LaunchRequest
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.metagame.social.parties.rules import PartyCandidate

GROUP = 4
GROUP_WAIT_S = 20.0  # without a new joiner
RETRY_S = 10.0
RETRY_FOR_S = 300.0
SENT_AGAIN_S = 20.0
FOLLOW_S = 600.0
SHOWN_S = 60.0  # a sent party candidate in the party poll
FORGET_S = 3600.0
SWEEP_S = 60.0
MAX_ENTRIES = 100_000


class State(StrEnum):
    """What a status poll answers."""

    MATCHING = "MATCHING"
    IN_PROGRESS = "IN_PROGRESS"
    FAILED = "FAILED"


@frozen
class Server:
    """Where players go."""

    host: str
    port: int


class Group(Protocol):
    """A party as these rules see it: two to four members, one of whom leads."""

    @property
    def id(self) -> str: ...

    @property
    def leader(self) -> AccountId: ...

    @property
    def members(self) -> tuple[AccountId, ...]: ...


@define(eq=False)
class Match:
    """One launch for one or more players."""

    id: str
    mode: str
    hunt_id: str
    args: str
    players: list[AccountId]
    expects: bool  # whether the deploy server is told whom to expect
    created_at: float
    party_id: str | None = None
    joined_at: float = 0.0  # the last joiner
    state: State = State.MATCHING
    server: Server | None = None
    asking: bool = False
    queued: bool = False
    asked_at: float = float("-inf")
    refused_at: float | None = None
    sent_at: float | None = None
    told: set[AccountId] = field(factory=set)  # who has learned the server's address

    def request(self) -> LaunchRequest:
        """What the deploy server is asked."""
        players = tuple(self.players) if self.expects else ()
        return LaunchRequest(self.mode, self.args, self.hunt_id, players)


@frozen
class Entry:
    """A player's place: the id they know it by, and the match."""

    candidate_id: str
    mode: str
    hunt_id: str
    match: Match
    seen_at: float
    hold_until: float = 0.0  # answers MATCHING until then, though the server is known

    def state(self, now: float) -> State:
        """What this player is told."""
        if self.match.state is State.IN_PROGRESS and now < self.hold_until:
            return State.MATCHING
        return self.match.state


@frozen
class Sent:
    """Where a player was last sent, and when."""

    server: Server
    hunt_id: str
    match_id: str
    at: float


def is_world(wish: LaunchRequest) -> bool:
    """City and dojo: asked for at once, never queued."""
    hunt = wish.hunt_id
    return not hunt or wish.game_mode == CITY or hunt.startswith(CITY_PREFIX) or "Dojo" in hunt


@define
class Matchmaker:
    """Every candidate of a single metagame process."""

    _entries: dict[AccountId, Entry] = field(factory=dict, init=False)
    _queues: dict[str, Match] = field(factory=dict, init=False)
    _parties: dict[str, Match] = field(factory=dict, init=False)
    _sent: dict[AccountId, Sent] = field(factory=dict, init=False)
    _swept_at: float = field(default=0.0, init=False)

    # -- joining -----------------------------------------------------------

    def join(
        self, player: AccountId, wish: LaunchRequest, group: Group | None, now: float
    ) -> Entry:
        """A player's wish; ``entry.match`` may be due at once (see ``due``)."""
        self._sweep(now)
        if group is not None and not wish.names_a_map:
            return self._join_party(player, wish, group, now)
        return self._join_alone(player, wish, now)

    def _join_alone(self, player: AccountId, wish: LaunchRequest, now: float) -> Entry:
        self._leave(player)
        if wish.names_a_map or is_world(wish):
            match = self._match(wish, [player], now, expects=False)
            return self._enter(player, match, new_id(), wish, now)
        match = self._queues.get(wish.hunt_id) or self._open_queue(wish.hunt_id, now)
        match.players.append(player)
        match.joined_at = now
        if len(match.players) >= GROUP:
            self._close(match)
        return self._enter(player, match, new_id(), wish, now)

    def _open_queue(self, hunt_id: str, now: float) -> Match:
        match = self._match(LaunchRequest(ISLAND, "", hunt_id), [], now, expects=True)
        match.queued = True
        self._queues[hunt_id] = match
        return match

    def _join_party(
        self, player: AccountId, wish: LaunchRequest, group: Group, now: float
    ) -> Entry:
        current = self._parties.get(group.id)
        if current is not None and self._follows(player, wish, current, group, now):
            return self._again(player, current, now)
        if player == group.leader:
            return self._lead(player, wish, group, now)
        if wish.game_mode in (CITY, SHARED) or is_world(wish):
            return self._join_alone(player, wish, now)
        raise Malformed("only the leader chooses another hunt")

    def _follows(
        self, player: AccountId, wish: LaunchRequest, current: Match, group: Group, now: float
    ) -> bool:
        """Whether the wish is the party's current hunt again, or its last one for a member."""
        if wish.hunt_id != current.hunt_id or current.state is State.FAILED:
            return False
        if player == group.leader and not self._is_in(player, current):
            return False  # back from elsewhere: the leader wants the hunt anew
        if player in current.players and wish.game_mode == current.mode:
            return current.state is State.MATCHING or now - current.created_at < FOLLOW_S
        return (
            player != group.leader
            and not is_world(wish)
            and current.state is State.IN_PROGRESS
            and now - current.created_at < FOLLOW_S
        )

    def _again(self, player: AccountId, match: Match, now: float) -> Entry:
        """The same candidate; a player already sent is told MATCHING a while, then sent again."""
        if not self._is_in(player, match):
            self._leave(player)
        if player not in match.players:
            match.players.append(player)
        hold_until = now + SENT_AGAIN_S if player in match.told else 0.0
        entry = Entry(match.id, match.mode, match.hunt_id, match, now, hold_until)
        self._entries[player] = entry
        return entry

    def _lead(self, leader: AccountId, wish: LaunchRequest, group: Group, now: float) -> Entry:
        world = wish.game_mode in (CITY, SHARED) or is_world(wish)
        members = self._on_the_same_server(leader, group) if world else list(group.members)
        if members == [leader] and world:
            return self._join_alone(leader, wish, now)
        for member in members:
            self._leave(member)
        match = self._match(wish, members, now, expects=not world)
        match.party_id = group.id
        self._parties.pop(group.id, None)
        self._parties[group.id] = match
        while len(self._parties) > MAX_ENTRIES:
            del self._parties[next(iter(self._parties))]
        for member in members:
            self._enter(member, match, match.id, wish, now)
        return self._entries[leader]

    def _on_the_same_server(self, leader: AccountId, group: Group) -> list[AccountId]:
        there = self._sent.get(leader)
        if there is None:
            return [leader]
        return [
            one
            for one in group.members
            if one == leader or (one in self._sent and self._sent[one].server == there.server)
        ]

    @staticmethod
    def _match(
        wish: LaunchRequest, players: list[AccountId], now: float, *, expects: bool
    ) -> Match:
        return Match(new_id(), wish.game_mode, wish.hunt_id, wish.game_args, players, expects, now)

    def _enter(
        self, player: AccountId, match: Match, candidate_id: str, wish: LaunchRequest, now: float
    ) -> Entry:
        entry = Entry(candidate_id, wish.game_mode, wish.hunt_id, match, now)
        self._entries[player] = entry
        return entry

    def _is_in(self, player: AccountId, match: Match) -> bool:
        """Whether that is where the player stands now; ``players`` may still expect them."""
        entry = self._entries.get(player)
        return entry is not None and entry.match is match

    def follow(
        self, player: AccountId, candidate_id: str, group: Group | None, now: float
    ) -> Entry:
        """A member's way into the party's candidate; raises Missing."""
        match = self._parties.get(group.id) if group is not None else None
        if match is None or match.id != candidate_id or not self._is_in(player, match):
            raise Missing("not a candidate of your party")
        return self._entries[player]

    # -- waiting -----------------------------------------------------------

    def entry(self, player: AccountId, now: float) -> Entry | None:
        """The player's place, marked as asked for."""
        entry = self._entries.get(player)
        if entry is None:
            return None
        entry = evolve(entry, seen_at=now)
        self._entries[player] = entry
        return entry

    def due(self, match: Match, now: float) -> bool:
        """Whether the deploy server should be asked now; closes a queue that is due."""
        if match.state is not State.MATCHING or match.asking or not match.players:
            return False
        if match.queued:
            if now - match.joined_at <= GROUP_WAIT_S:
                return False
            self._close(match)
        if match.refused_at is not None:
            if now - match.refused_at >= RETRY_FOR_S:
                self._fail(match)
                return False
            return now - match.asked_at >= RETRY_S
        return True

    def _close(self, match: Match) -> None:
        match.queued = False
        if self._queues.get(match.hunt_id) is match:
            del self._queues[match.hunt_id]

    def asking(self, match: Match, now: float) -> LaunchRequest:
        """The launch begins; what to ask."""
        match.asking, match.asked_at = True, now
        return match.request()

    # -- what the deploy server said ---------------------------------------

    def ready(self, match: Match, server: Server) -> None:
        match.asking, match.server, match.state = False, server, State.IN_PROGRESS

    def busy(self, match: Match, now: float) -> None:
        """No capacity: stays MATCHING, retried by active polls for five minutes."""
        match.asking = False
        if match.refused_at is None:
            match.refused_at = now
        for player in list(match.players):  # who left meanwhile is not expected again
            if not self._is_in(player, match):
                self._drop(player, match)

    def failed(self, match: Match) -> None:
        """Anything else: FAILED, asked once."""
        match.asking = False
        self._fail(match)

    def _fail(self, match: Match) -> None:
        match.state = State.FAILED
        if match.party_id is not None and self._parties.get(match.party_id) is match:
            del self._parties[match.party_id]

    def sent(self, player: AccountId, entry: Entry, now: float) -> None:
        """The player was told the server's address."""
        match, before = entry.match, self._sent.get(player)
        if match.server is None or (before is not None and before.match_id == match.id):
            return
        match.told.add(player)
        self._sent.pop(player, None)  # the longest sent stands first
        self._sent[player] = Sent(match.server, entry.hunt_id, match.id, now)
        while len(self._sent) > MAX_ENTRIES:
            del self._sent[next(iter(self._sent))]
        match.sent_at = now

    def last_sent(self, player: AccountId) -> Sent | None:
        """Where the player was last sent."""
        return self._sent.get(player)

    # -- leaving -----------------------------------------------------------

    def cancel(self, player: AccountId, group: Group | None) -> None:
        """``DELETE /candidate``: a party leader's cancel is the party's."""
        entry = self._entries.get(player)
        if entry is None:
            return
        match = entry.match
        if match.party_id is not None and group is not None and group.leader == player:
            self._parties.pop(match.party_id, None)
            if match.state is not State.IN_PROGRESS:
                for member in list(match.players):
                    if self._is_in(member, match):
                        self._leave(member)
                return
        self.leave(player)

    def leave(self, player: AccountId) -> None:
        """``DELETE /candidate/leave``: only the caller, and only an unresolved wait."""
        entry = self._entries.get(player)
        if entry is not None and entry.match.state is not State.IN_PROGRESS:
            self._leave(player)

    def forget(self, player: AccountId) -> None:
        """The player's sessions have ended: no place in any queue, match or server."""
        self._leave(player)
        self._sent.pop(player, None)

    def left_party(self, party_id: str, players: tuple[AccountId, ...]) -> None:
        """Who leaves the party before the server is up stays behind."""
        for player in players:
            entry = self._entries.get(player)
            if entry is not None and entry.match.party_id == party_id:
                self.leave(player)

    def _leave(self, player: AccountId) -> None:
        entry = self._entries.pop(player, None)
        if entry is None:
            return
        match = entry.match
        if match.state is State.IN_PROGRESS or match.asking:
            return  # the launch under way goes on for whoever is expected
        self._drop(player, match)

    def _drop(self, player: AccountId, match: Match) -> None:
        if player in match.players:
            match.players.remove(player)
        if not match.players:
            self._close(match)
            if match.party_id is not None and self._parties.get(match.party_id) is match:
                del self._parties[match.party_id]

    # -- for others --------------------------------------------------------

    def of_party(self, party_id: str, now: float) -> PartyCandidate | None:
        """The candidate the party poll shows; gone a minute after the last was sent."""
        match = self._parties.get(party_id)
        if match is None:
            return None
        if match.sent_at is not None and now - match.sent_at >= SHOWN_S:
            return None
        return PartyCandidate(match.id, match.state.value, match.hunt_id, frozenset(match.players))

    def _sweep(self, now: float) -> None:
        if now - self._swept_at < SWEEP_S and len(self._entries) < MAX_ENTRIES:
            return
        self._swept_at = now
        for player, entry in list(self._entries.items()):
            if now - entry.seen_at >= FORGET_S:
                self._leave(player)
        while len(self._entries) >= MAX_ENTRIES:
            self._leave(next(iter(self._entries)))
        for party_id, match in list(self._parties.items()):
            if now - match.created_at >= FORGET_S:
                del self._parties[party_id]
        for player, sent in list(self._sent.items()):
            if now - sent.at >= FORGET_S and player not in self._entries:
                del self._sent[player]
