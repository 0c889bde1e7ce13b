"""A model of matchmaking in plain dictionaries, to compare with the rules on the board.

The model was written before the rules; it shares their value types, but no rule.
"""

from attrs import define, evolve, field

from svcserver.kernel.ids import AccountId, new_id
from svcserver.kernel.launch_requests import CITY, ISLAND, SHARED, LaunchRequest
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.metagame.play.matches import HuntGroup, MatchState, Sent, Server, is_world
from svcserver.metagame.social.parties.rules import PartyCandidate
from tests.metagame.play.matchmaking.model_launches import FORGET_S, Launches, Match, MatchEntry

GROUP = 4
GROUP_WAIT_S = 20.0  # without a new joiner
RETRY_S = 10.0
RETRY_FOR_S = 300.0
LOOK_AGAIN_S = 1.0  # between two checks whether an earlier game server has ended
SENT_AGAIN_S = 20.0
FOLLOW_S = 600.0
SHOWN_S = 60.0  # how long the party poll shows a sent candidate
SWEEP_S = 60.0
MAX_ENTRIES = 100_000


@define
class PlainMatchmaker:
    """The model's version of ``Matchmaker``, with the time as an argument."""

    launches: Launches = field(factory=lambda: Launches(0.0))
    _entries: dict[AccountId, MatchEntry] = field(factory=dict, init=False)
    _queues: dict[str, Match] = field(factory=dict, init=False)
    _parties: dict[str, Match] = field(factory=dict, init=False)
    _sent: dict[AccountId, Sent] = field(factory=dict, init=False)
    _swept_at: float = field(default=0.0, init=False)

    # -- joining -----------------------------------------------------------

    def join(
        self, player: AccountId, request: LaunchRequest, group: HuntGroup | None, now: float
    ) -> MatchEntry:
        """Queue a player; the match of the returned entry may be ready for launch (see ``due``)."""
        self._sweep(now)
        if group is not None and not request.names_a_map:
            return self._join_party(player, request, group, now)
        return self._join_alone(player, request, now)

    def _join_alone(self, player: AccountId, request: LaunchRequest, now: float) -> MatchEntry:
        self._leave(player)
        if request.names_a_map or is_world(request):
            match = self._match(request, [player], now, expects=False)
            return self._enter(player, match, new_id(), request, now)
        match = self._queues.get(request.hunt_id) or self._open_queue(request.hunt_id, now)
        match.players.append(player)
        match.joined_at = now
        if len(match.players) >= GROUP:
            self._close(match)
        return self._enter(player, match, new_id(), request, now)

    def _open_queue(self, hunt_id: str, now: float) -> Match:
        match = self._match(LaunchRequest(ISLAND, "", hunt_id), [], now, expects=True)
        match.queued = True
        self._queues[hunt_id] = match
        return match

    def _join_party(
        self, player: AccountId, request: LaunchRequest, group: HuntGroup, now: float
    ) -> MatchEntry:
        current = self._parties.get(group.id)
        if current is not None and self._follows(player, request, current, group, now):
            return self._again(player, current, now)
        if player == group.leader:
            return self._lead(player, request, group, now)
        if request.game_mode in (CITY, SHARED) or is_world(request):
            return self._join_alone(player, request, now)
        raise Malformed("only the leader chooses another hunt")

    def _follows(
        self,
        player: AccountId,
        request: LaunchRequest,
        current: Match,
        group: HuntGroup,
        now: float,
    ) -> bool:
        """Return whether the request repeats the party's current hunt or a member's last hunt."""
        if request.hunt_id != current.hunt_id or current.state is MatchState.FAILED:
            return False
        if player == group.leader and not self._is_in(player, current):
            return False  # the leader has come back and wants the hunt again
        if player in current.players and request.game_mode == current.mode:
            return current.state is MatchState.MATCHING or now - current.created_at < FOLLOW_S
        return (
            player != group.leader
            and not is_world(request)
            and current.state is MatchState.IN_PROGRESS
            and now - current.created_at < FOLLOW_S
        )

    def _again(self, player: AccountId, match: Match, now: float) -> MatchEntry:
        """Return the player's current candidate.

        A player who was already sent to the server is sent again after a while.
        """
        if not self._is_in(player, match):
            self._leave(player)
        if player not in match.players:
            match.players.append(player)
        hold_until = now + SENT_AGAIN_S if player in match.told else 0.0
        match.elsewhere.pop(player, None)
        known_as = match.known_as.setdefault(player, match.id)
        entry = MatchEntry(known_as, match.mode, match.hunt_id, match, now, hold_until)
        self._entries[player] = entry
        return entry

    def _lead(
        self, leader: AccountId, request: LaunchRequest, group: HuntGroup, now: float
    ) -> MatchEntry:
        world = request.game_mode in (CITY, SHARED) or is_world(request)
        members = self._on_the_same_server(leader, group) if world else list(group.members)
        if members == [leader] and world:
            return self._join_alone(leader, request, now)
        for member in members:
            self._leave(member)
        match = self._match(request, members, now, expects=not world)
        match.party_id, match.leader = group.id, leader
        self._parties.pop(group.id, None)
        self._parties[group.id] = match
        while len(self._parties) > MAX_ENTRIES:
            del self._parties[next(iter(self._parties))]
        for member in members:
            self._enter(member, match, match.id, request, now)
        return self._entries[leader]

    def _on_the_same_server(self, leader: AccountId, group: HuntGroup) -> list[AccountId]:
        there = self._sent.get(leader)
        if there is None:
            return [leader]
        return [
            member
            for member in group.members
            if member == leader
            or (member in self._sent and self._sent[member].server == there.server)
        ]

    @staticmethod
    def _match(
        request: LaunchRequest, players: list[AccountId], now: float, *, expects: bool
    ) -> Match:
        return Match(
            new_id(), request.game_mode, request.hunt_id, request.game_args, players, expects, now
        )

    def _enter(
        self, player: AccountId, match: Match, candidate_id: str, request: LaunchRequest, now: float
    ) -> MatchEntry:
        if not match.takes_a_port:
            self.launches.elsewhere(player, now)
        match.known_as[player] = candidate_id
        entry = MatchEntry(candidate_id, request.game_mode, request.hunt_id, match, now)
        self._entries[player] = entry
        return entry

    def _is_in(self, player: AccountId, match: Match) -> bool:
        """Return whether the player's current entry is in this match.

        ``match.players`` may be outdated.
        """
        entry = self._entries.get(player)
        return entry is not None and entry.match is match

    def follow(
        self, player: AccountId, candidate_id: str, group: HuntGroup | None, now: float
    ) -> MatchEntry:
        """Add a member to the party's candidate; raise Missing if the party has no candidate."""
        match = self._parties.get(group.id) if group is not None else None
        if match is None or match.id != candidate_id or not self._is_in(player, match):
            raise Missing("your party has no such search for a game server")
        return self._entries[player]

    # -- waiting -----------------------------------------------------------

    def entry(self, player: AccountId, now: float) -> MatchEntry | None:
        """Return the player's entry, marked as polled."""
        entry = self._entries.get(player)
        if entry is None:
            return None
        entry = evolve(entry, seen_at=now)
        self._entries[player] = entry
        return entry

    def due(self, match: Match, now: float) -> bool:
        """Close an expired queue; return whether a game server should be requested now."""
        if match.state is not MatchState.MATCHING or match.asking or not match.players:
            return False
        if match.queued:
            if now - match.joined_at <= GROUP_WAIT_S:
                return False
            self._close(match)
        if match.refused_at is not None:
            if now - match.refused_at >= RETRY_FOR_S:
                self._fail(match)
                return False
            return now >= match.retry_at
        return True

    def _close(self, match: Match) -> None:
        match.queued = False
        if self._queues.get(match.hunt_id) is match:
            del self._queues[match.hunt_id]

    def asking(self, match: Match, now: float) -> LaunchRequest:
        """Begin the launch and return the request for the deploy server."""
        match.asking, match.retry_at = True, now + RETRY_S
        return match.request()

    def may_start(self, match: Match, now: float) -> bool:
        """Return whether the game server may be requested; if so, record the launch.

        Otherwise, players who are still in an earlier hunt are sent there again. Players who went
        to the city meanwhile wait until the earlier game server ends, as if capacity were missing.
        """
        theirs = self.launches.in_the_way(match, now)
        if not theirs:
            self.launches.begun(match, now)
            return True
        match.retry_at = now + LOOK_AGAIN_S
        self._wait(match, now)
        for player, earlier in theirs.items():
            decides = match.leader or player
            if decides not in earlier.elsewhere and self._is_in(player, match):
                self._again(player, earlier, now)
        if match.party_id is not None and not match.players:
            earlier = next(iter(theirs.values()))
            if earlier.party_id == match.party_id:
                self._parties[match.party_id] = earlier
        return False

    # -- what the deploy server said ---------------------------------------

    def ready(self, match: Match, server: Server, now: float) -> None:
        match.asking, match.server, match.state = False, server, MatchState.IN_PROGRESS
        match.ready_at = now
        self.launches.ready(match, server)

    def refused(self, match: Match, now: float) -> None:
        """Keep the match MATCHING while capacity is missing; for five minutes, polls try again."""
        self._wait(match, now)

    def _wait(self, match: Match, now: float) -> None:
        match.asking = False
        if match.refused_at is None:
            match.refused_at = now
        for player in list(match.players):  # players who left meanwhile are not expected again
            if not self._is_in(player, match):
                self._drop(player, match)

    def failed(self, match: Match) -> None:
        """Fail the match permanently."""
        match.asking = False
        self._fail(match)

    def _fail(self, match: Match) -> None:
        match.state = MatchState.FAILED
        if match.party_id is not None and self._parties.get(match.party_id) is match:
            del self._parties[match.party_id]

    def sent(self, player: AccountId, entry: MatchEntry, now: float) -> None:
        """Record that the player has received the server's address."""
        match, before = entry.match, self._sent.get(player)
        if match.server is None or (before is not None and before.match_id == match.id):
            return
        match.told.add(player)
        self._sent.pop(player, None)  # the player who was sent first is the first entry
        self._sent[player] = Sent(match.server, entry.hunt_id, match.id, now)
        while len(self._sent) > MAX_ENTRIES:
            del self._sent[next(iter(self._sent))]
        match.sent_at = now

    def last_sent(self, player: AccountId) -> Sent | None:
        """Return the server to which the player was last sent."""
        return self._sent.get(player)

    # -- leaving -----------------------------------------------------------

    def cancel(self, player: AccountId, group: HuntGroup | None) -> None:
        """Handle ``DELETE /candidate``; a party leader cancels for the whole party."""
        entry = self._entries.get(player)
        if entry is None:
            return
        match = entry.match
        if match.party_id is not None and group is not None and group.leader == player:
            self._parties.pop(match.party_id, None)
            if match.state is not MatchState.IN_PROGRESS:
                for member in list(match.players):
                    if self._is_in(member, match):
                        self._leave(member)
                return
        self.leave(player)

    def leave(self, player: AccountId) -> None:
        """Handle ``DELETE /candidate/leave``: only the caller leaves, and only while waiting."""
        entry = self._entries.get(player)
        if entry is not None and entry.match.state is not MatchState.IN_PROGRESS:
            self._leave(player)

    def forget(self, player: AccountId) -> None:
        """Remove a player from every queue, match and server, after the player's sessions ended."""
        self._leave(player)
        self._sent.pop(player, None)

    def left_party(self, party_id: str, players: tuple[AccountId, ...]) -> None:
        """Remove players who leave the party before the server is up."""
        for player in players:
            entry = self._entries.get(player)
            if entry is not None and entry.match.party_id == party_id:
                self.leave(player)

    def _leave(self, player: AccountId) -> None:
        entry = self._entries.pop(player, None)
        if entry is None:
            return
        match = entry.match
        if match.state is MatchState.IN_PROGRESS or match.asking:
            return  # the pending launch continues for the players who are still expected
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
        """Return the party's candidate; None if all players got the server over a minute ago."""
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
        self.launches.sweep(now)
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
