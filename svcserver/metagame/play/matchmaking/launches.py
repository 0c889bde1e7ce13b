"""The limit on game servers that one player or party may start. Spec: 1 §4 Matchmaking.

A hunt or a tutorial takes a UDP port until its game server ends, at most a minute after the last
player has left. While a game server runs, but for at most an hour, it is charged to at least one
account. This account cannot start another game server. So N accounts have at most N game servers.

A launch is charged to all its players, except players to whom another launch is charged already. A
player who asks for the city or the dojo has left the hunt. The launch is then no longer charged to
that player, unless it is charged to nobody else.

One exception protects players from each other. If a game server still runs ``EMPTY_S`` seconds
after a player has left, others are playing on it. The player who left may then start a second game
server, if the first was launched for several players. An account with two game servers cannot
start a third.
"""

from collections.abc import Collection, Iterable

from attrs import define

from svcserver.kernel.ids import AccountId
from svcserver.metagame.play.matches import Match, MatchState, Server, StoredMatches

AT_ONCE = 2
EMPTY_S = 120.0  # an empty game server ends within a minute
FORGET_S = 3600.0


@define
class LaunchLimits:
    """The limit on the launches of each account and party; none if ``cooldown_s`` is 0."""

    stored: StoredMatches
    cooldown_s: float = 0.0

    def begun(self, match: Match) -> None:
        """Record a launch, so that it counts towards the limits of its party and its players."""
        if not match.takes_a_port or not self.cooldown_s:
            return
        match.counts_for = {
            player for player in match.players if not self._of_player(player, match)
        }
        for holder in _holders(match):
            self.stored.hold(holder, [*self._others(holder, match), match])

    def ready(self, match: Match, server: Server) -> None:
        """Record the game server of a match; mark an earlier match on that game server as ended."""
        before = self.stored.launched_on(server)
        if before is not None and before is not match:
            before.ended = True
        if match.takes_a_port:
            self.stored.set_launched_on(server, match)

    def running(self, match: Match) -> list[Match]:
        """Return the running launches that might block this match."""
        live = (launch for holder in _holders(match) for launch in self._live(holder))
        return [
            launch
            for launch in live
            if launch is not match and launch.state is MatchState.IN_PROGRESS
        ]

    def elsewhere(self, player: AccountId) -> None:
        """Record that the player has left the hunt for the city or the dojo."""
        for match in self._live(player):  # only launches that have begun are charged
            match.elsewhere.setdefault(player, self.stored.now)
            if len(match.counts_for) > 1:
                match.counts_for.discard(player)

    def in_the_way(self, match: Match) -> dict[AccountId, Match]:
        """Return a dict from each player to the launch that blocks the match; empty if none does.

        A launch of the party can block all players. Launches of single players block the match only
        if each player is blocked.
        """
        if not match.takes_a_port or not self.cooldown_s:
            return {}
        party = self._newest(self._others(match.party_id, match) if match.party_id else [])
        if party is not None:
            return dict.fromkeys(match.players, party)
        blocking = {}
        for player in match.players:
            own = self._of_player(player, match)
            if own is None:
                return {}
            blocking[player] = own
        return blocking

    def _of_player(self, player: AccountId, asking: Match) -> Match | None:
        live, now = self._others(player, asking), self.stored.now
        for match in live:
            if player in match.counts_for and not _is_held_by_another(match, player, now):
                return match
        return self._newest(live)

    def _newest(self, live: list[Match]) -> Match | None:
        """Return the newest launch in ``live`` if it blocks a further launch, else None."""
        if not live:
            return None
        newest = live[-1]
        cools = self.stored.now - newest.ready_at < self.cooldown_s
        return (
            newest if newest.is_asking(self.stored.now) or cools or len(live) >= AT_ONCE else None
        )

    def _others(self, holder: str, asking: Match) -> list[Match]:
        return [match for match in self._live(holder) if match is not asking]

    def _live(self, holder: str) -> list[Match]:
        now = self.stored.now
        held = self.stored.held(holder)
        return [
            match for match in held if _is_live(match, now) and now - match.created_at < FORGET_S
        ]


def end_those_not_on(matches: Iterable[Match], ports: Collection[int]) -> None:
    """Mark matches as ended if their game server's port is not among ``ports``."""
    for match in matches:
        if match.server is not None and match.server.port not in ports:
            match.ended = True


def _is_held_by_another(match: Match, player: AccountId, now: float) -> bool:
    left_at = match.elsewhere.get(player)
    return left_at is not None and len(match.players) > 1 and now - left_at >= EMPTY_S


def _is_live(match: Match, now: float) -> bool:
    return not match.ended and (match.is_asking(now) or match.state is MatchState.IN_PROGRESS)


def _holders(match: Match) -> list[str]:
    return [*match.players, *([match.party_id] if match.party_id is not None else [])]
