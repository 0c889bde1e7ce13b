"""The rules for queueing players and launching their matches. Spec: 1 §3 Candidate, §4."""

from collections.abc import Collection

from attrs import define

from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import CITY, ISLAND, SHARED, LaunchRequest
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.times import DAY_S
from svcserver.metagame.play.matches import (
    HuntGroup,
    Match,
    MatchEntry,
    MatchState,
    Sent,
    Server,
    StoredMatches,
    is_world,
    takes_a_port,
)
from svcserver.metagame.play.matchmaking.launches import LaunchLimits
from svcserver.metagame.social.parties.rules import PartyCandidate

GROUP = 4
GROUP_WAIT_S = 20.0  # seconds without a new player, after which the queue closes
RETRY_S = 10.0
RETRY_FOR_S = 300.0
ASKED_S = 15.0  # seconds; a request not renewed for this time is abandoned
LOOK_AGAIN_S = 1.0  # seconds between checks whether an earlier game server has ended
SENT_AGAIN_S = 20.0
FOLLOW_S = 600.0
SHOWN_S = 60.0  # seconds; the party poll shows a candidate this long after the last player was sent
FORGET_S = 3600.0
LEFT_S = 120.0  # seconds during which a city may still save a player who was sent elsewhere


@define
class Matchmaker:
    """The matchmaking rules, applied to the matches on the board (the live state).

    Each object is valid for one transaction only.
    """

    stored: StoredMatches
    launches: LaunchLimits
    asked_s: float = ASKED_S

    # -- joining -----------------------------------------------------------

    def join(
        self, player: AccountId, request: LaunchRequest, group: HuntGroup | None
    ) -> MatchEntry:
        """Return a new entry for the player; its match may be ready to launch (see ``due``)."""
        if group is not None and not request.names_a_map:
            return self._join_party(player, request, group)
        return self._join_alone(player, request)

    def _may_begin(self, request: LaunchRequest) -> None:
        """Raise Malformed if the request is for a new hunt during maintenance mode."""
        if takes_a_port(request) and self.stored.draining:
            raise Malformed("no new hunts: the server is about to restart")

    def _join_alone(self, player: AccountId, request: LaunchRequest) -> MatchEntry:
        self._may_begin(request)
        self._leave(player)
        if request.names_a_map or is_world(request):
            match = self._match(request, [player], expects=False)
            return self._enter(player, match, self.stored.new_id(), request)
        match = self._queue(request.hunt_id)
        match.players.append(player)
        match.joined_at = self.stored.now
        if len(match.players) >= GROUP:
            self._close(match)
        return self._enter(player, match, self.stored.new_id(), request)

    def _queue(self, hunt_id: str) -> Match:
        match = self.stored.queue(hunt_id)
        if match is not None and match.queued:
            match.players = [player for player in match.players if self._is_in(player, match)]
        else:
            match = self._match(LaunchRequest(ISLAND, "", hunt_id), [], expects=True)
            match.queued = True
        self.stored.set_queue(hunt_id, match)
        return match

    def _join_party(
        self, player: AccountId, request: LaunchRequest, group: HuntGroup
    ) -> MatchEntry:
        current = self._of_party(group.id)
        if current is not None and self._follows(player, request, current, group):
            return self._again(player, current)
        if player == group.leader:
            return self._lead(player, request, group)
        if request.game_mode in (CITY, SHARED) or is_world(request):
            return self._join_alone(player, request)
        raise Malformed("only the leader chooses another hunt")

    def _follows(
        self, player: AccountId, request: LaunchRequest, current: Match, group: HuntGroup
    ) -> bool:
        """Return whether the player joins the party's current match."""
        now = self.stored.now
        if request.hunt_id != current.hunt_id or current.state is MatchState.FAILED:
            return False
        if player == group.leader and not self._is_in(player, current):
            return False  # the leader has left the hunt and wants a new one
        if player in current.players and request.game_mode == current.mode:
            return current.state is MatchState.MATCHING or now - current.created_at < FOLLOW_S
        return (
            player != group.leader
            and not is_world(request)
            and current.state is MatchState.IN_PROGRESS
            and now - current.created_at < FOLLOW_S
        )

    def _again(self, player: AccountId, match: Match) -> MatchEntry:
        """Return a new entry of the player in the same match.

        If the player was already sent to the match's game server, the player gets the server's
        address again only after SENT_AGAIN_S seconds.
        """
        if not self._is_in(player, match):
            self._leave(player)
        if player not in match.players:
            match.players.append(player)
        hold_until = self.stored.now + SENT_AGAIN_S if player in match.told else 0.0
        match.elsewhere.pop(player, None)
        known_as = match.known_as.setdefault(player, match.id)
        entry = MatchEntry(known_as, match.mode, match.hunt_id, match, hold_until)
        self.stored.place(player, entry)
        return entry

    def _lead(self, leader: AccountId, request: LaunchRequest, group: HuntGroup) -> MatchEntry:
        world = request.game_mode in (CITY, SHARED) or is_world(request)
        members = self._on_the_same_server(leader, group) if world else list(group.members)
        if members == [leader] and world:
            return self._join_alone(leader, request)
        if not world:
            self._may_begin(request)
        for member in members:
            self._leave(member)
        match = self._match(request, members, expects=not world)
        match.party_id, match.leader = group.id, leader
        self.stored.set_party(group.id, match)
        entries = {member: self._enter(member, match, match.id, request) for member in members}
        return entries[leader]

    def _on_the_same_server(self, leader: AccountId, group: HuntGroup) -> list[AccountId]:
        there = self.last_sent(leader)
        if there is None:
            return [leader]
        sent = {member: self.last_sent(member) for member in group.members}
        return [
            member
            for member, their in sent.items()
            if member == leader or (their is not None and their.server == there.server)
        ]

    def _match(self, request: LaunchRequest, players: list[AccountId], *, expects: bool) -> Match:
        made = self.stored.new_id(), request.game_mode, request.hunt_id, request.game_args
        match = Match(*made, players, expects, self.stored.now)
        self.stored.add(match)
        return match

    def _enter(
        self, player: AccountId, match: Match, candidate_id: str, request: LaunchRequest
    ) -> MatchEntry:
        if not match.takes_a_port:
            self.launches.elsewhere(player)
        match.known_as[player] = candidate_id
        entry = MatchEntry(candidate_id, request.game_mode, request.hunt_id, match)
        self.stored.place(player, entry)
        return entry

    def _is_in(self, player: AccountId, match: Match) -> bool:
        """Return whether the player's current entry is for this match.

        ``match.players`` may still contain players who have left.
        """
        entry = self.stored.entry(player)
        return entry is not None and entry.match is match

    def follow(self, player: AccountId, candidate_id: str, group: HuntGroup | None) -> MatchEntry:
        """Return a party member's existing entry in the party's match; raises Missing."""
        match = self._of_party(group.id) if group is not None else None
        entry = self.stored.entry(player)
        if match is None or match.id != candidate_id or entry is None or entry.match is not match:
            raise Missing("your party has no such search for a game server")
        return entry

    # -- waiting -----------------------------------------------------------

    def entry(self, player: AccountId) -> MatchEntry | None:
        """Return the player's entry, and keep it for another hour."""
        entry = self.stored.entry(player)
        if entry is not None:
            self.stored.place(player, entry)
        return entry

    def begin(self, match: Match) -> LaunchRequest | None:
        """Return the request to send to the deploy server now, or None if no request is due."""
        return self.asking(match) if self.due(match) else None

    def due(self, match: Match) -> bool:
        """Return whether to request a game server now.

        Close the match's queue if the last player joined over GROUP_WAIT_S seconds ago.
        """
        now = self.stored.now
        if match.state is not MatchState.MATCHING or match.is_asking(now) or not match.players:
            return False
        if match.takes_a_port and self.stored.draining:
            self._close(match)
            self._fail(match)
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
        if self.stored.queue(match.hunt_id) is match:
            self.stored.set_queue(match.hunt_id, None)

    def asking(self, match: Match) -> LaunchRequest:
        """Record that the launch is requested now, and return the request."""
        match.asking_until, match.retry_at = (
            self.stored.now + self.asked_s,
            self.stored.now + RETRY_S,
        )
        return match.request()

    def still_asking(self, match: Match) -> None:
        """Extend the time in which no other worker may request this launch."""
        if match.state is MatchState.MATCHING:
            match.asking_until = self.stored.now + self.asked_s

    def may_start(self, match: Match) -> bool:
        """Return whether the game server may be requested; if so, record the launch.

        If the players may not start another game server yet, they return to their earlier hunt.
        Players who have left that hunt wait until its game server has ended. The members of a party
        return or wait together with their leader.
        """
        theirs = self.launches.in_the_way(match)
        if not theirs:
            self.launches.begun(match)
            return True
        match.retry_at = self.stored.now + LOOK_AGAIN_S
        self._wait(match)
        for player, earlier in theirs.items():
            decides = match.leader or player
            if decides not in earlier.elsewhere and self._is_in(player, match):
                self._again(player, earlier)
        if match.party_id is not None and not match.players:
            earlier = next(iter(theirs.values()))
            if earlier.party_id == match.party_id:
                self.stored.set_party(match.party_id, earlier)
        return False

    # -- answers of the deploy server --------------------------------------

    def ready(self, match: Match, server: Server) -> None:
        match.asking_until, match.server, match.state = 0.0, server, MatchState.IN_PROGRESS
        match.ready_at = self.stored.now
        self.launches.ready(match, server)

    def refused(self, match: Match) -> None:
        """Keep the match waiting for capacity; its launch is retried for five minutes."""
        self._wait(match)

    def _wait(self, match: Match) -> None:
        match.asking_until = 0.0
        if match.refused_at is None:
            match.refused_at = self.stored.now
        for player in list(match.players):  # players who left are not expected again
            if not self._is_in(player, match):
                self._drop(player, match)

    def failed(self, match: Match) -> None:
        """Mark the match as failed for good, because the deploy server gave no usable reply."""
        match.asking_until = 0.0
        self._fail(match)

    def _fail(self, match: Match) -> None:
        match.state = MatchState.FAILED
        self._end_of_party(match)

    def sent(self, player: AccountId, entry: MatchEntry) -> bool:
        """Record that the player got the server's address; return True the first time."""
        match, before, now = entry.match, self.last_sent(player), self.stored.now
        if match.server is None or (before is not None and before.match_id == match.id):
            return False
        match.told.add(player)
        if before is not None and before.server != match.server:
            self.stored.set_left(player, before.server)
        self.stored.set_sent(player, Sent(match.server, entry.hunt_id, match.id, now))
        match.sent_at = now
        return True

    def last_sent(self, player: AccountId) -> Sent | None:
        """Return the game server to which the player was sent last.

        After an hour, the result is None, unless the player is still in a match.
        """
        sent = self.stored.sent(player)
        if sent is None or self.stored.now - sent.at < FORGET_S:
            return sent
        return sent if self.stored.entry(player) is not None else None

    def players_on(
        self, server: Server, players: Collection[AccountId], match_id: str = ""
    ) -> frozenset[AccountId]:
        """Return those of the players who were sent to the game server.

        For a hunt or tutorial, these are the players of the match ``match_id``. Once the match
        is a day old, the result is empty. For a city or dojo (no ``match_id``), the result also
        includes players who left it less than ``LEFT_S`` seconds ago.
        """
        if match_id:
            match = self.stored.match(match_id)
            if match is None or self.stored.now - match.created_at >= DAY_S:
                return frozenset()
            return frozenset(players) & {*match.players, *match.told}
        return frozenset(player for player in players if self._is_on(server, player))

    def _is_on(self, server: Server, player: AccountId) -> bool:
        sent = self.stored.sent(player)
        if sent is None:
            return False  # also after the end of the player's sessions
        return server in (sent.server, self.stored.left(player))

    # -- leaving -----------------------------------------------------------

    def cancel(self, player: AccountId, group: HuntGroup | None) -> None:
        """Cancel the player's search; a party leader cancels it for the whole party."""
        entry = self.stored.entry(player)
        if entry is None:
            return
        match = entry.match
        if match.party_id is not None and group is not None and group.leader == player:
            self.stored.set_party(match.party_id, None)
            if match.state is not MatchState.IN_PROGRESS:
                for member in list(match.players):
                    if self._is_in(member, match):
                        self._leave(member)
                return
        self.leave(player)

    def leave(self, player: AccountId) -> None:
        """Remove only this player from the match, unless the match already has a game server."""
        entry = self.stored.entry(player)
        if entry is not None and entry.match.state is not MatchState.IN_PROGRESS:
            self._leave(player)

    def forget(self, player: AccountId) -> None:
        """Remove the player, whose sessions have ended, from every queue and match."""
        self._leave(player)
        self.stored.set_sent(player, None)

    def left_party(self, party_id: str, players: tuple[AccountId, ...]) -> None:
        """Remove players from their old party's match, unless the match's server is ready."""
        for player in players:
            entry = self.stored.entry(player)
            if entry is not None and entry.match.party_id == party_id:
                self.leave(player)

    def _leave(self, player: AccountId) -> None:
        entry = self.stored.entry(player)
        if entry is None:
            return
        self.stored.place(player, None)
        match = entry.match
        if match.state is MatchState.IN_PROGRESS or match.is_asking(self.stored.now):
            return  # the launch goes on for the expected players
        match.asking_until = 0.0
        self._drop(player, match)

    def _drop(self, player: AccountId, match: Match) -> None:
        if player in match.players:
            match.players.remove(player)
        if not match.players:
            self._close(match)
            self._end_of_party(match)

    def _end_of_party(self, match: Match) -> None:
        if match.party_id is not None and self.stored.of_party(match.party_id) is match:
            self.stored.set_party(match.party_id, None)

    # -- the party's match --------------------------------------------------

    def of_party(self, party_id: str) -> PartyCandidate | None:
        """Return the party's search for a game server, or None.

        A search is shown until one minute after its last player was sent to the game server.
        """
        match = self._of_party(party_id)
        if match is None:
            return None
        if match.sent_at is not None and self.stored.now - match.sent_at >= SHOWN_S:
            return None
        return PartyCandidate(match.id, match.state.value, match.hunt_id, frozenset(match.players))

    def _of_party(self, party_id: str) -> Match | None:
        match = self.stored.of_party(party_id)
        is_old = match is not None and self.stored.now - match.created_at >= FORGET_S
        return None if is_old else match
