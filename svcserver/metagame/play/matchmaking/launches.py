"""How many game servers one player or one party may start. Spec: 1 §4 Matchmaking.

A hunt or a tutorial takes a port of its own until its server ends by itself, up to a minute after
the last player has left. So an account has one launch that counts as its own, for as long as its
server runs and at least ``cooldown_s`` have not passed, and never more than two servers at once:
the one it plays on and the one it came from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from attrs import define, field
from cachetools import LRUCache

from svcserver.kernel.ids import AccountId
from svcserver.metagame.play.matchmaking.matches import Match, Server, State

AT_ONCE = 2
FORGET_S = 3600.0
MAX_HOLDERS = 100_000


@define
class Launches:
    """Who started what, by account id and by party id; ``cooldown_s`` 0 bounds nothing."""

    cooldown_s: float
    _of: LRUCache[str, list[Match]] = field(  # the newest stands last
        factory=lambda: LRUCache(MAX_HOLDERS), init=False
    )
    _on: dict[Server, Match] = field(factory=dict, init=False)

    def begun(self, match: Match) -> None:
        """The deploy server is asked for it: it counts for each player and for the party."""
        if not match.takes_a_port or not self.cooldown_s:
            return
        for holder in _holders(match):
            others = [one for one in self._live(holder) if one is not match]
            self._of[holder] = [*others, match]

    def ready(self, match: Match, server: Server) -> None:
        """It runs there; whatever ran there before has ended."""
        before = self._on.get(server)
        if before is not None and before is not match:
            before.ended = True
        if match.takes_a_port:
            self._on[server] = match

    def running(self, match: Match) -> list[Match]:
        """The servers whose end would let this match start."""
        found = (one for holder in _holders(match) for one in self._live(holder))
        return [one for one in found if one is not match and one.state is State.IN_PROGRESS]

    def elsewhere(self, players: Iterable[AccountId]) -> None:
        """They asked for the city or the dojo: their hunt is behind them."""
        for player in players:
            for match in self._of.get(player, ()):
                match.elsewhere.add(player)

    def in_the_way(self, match: Match, now: float) -> dict[AccountId, Match]:
        """The launch that each player has already; empty when the match may start.

        It may when the party has none and one of its players has none.
        """
        if not match.takes_a_port or not self.cooldown_s:
            return {}
        party = self._counts(match.party_id or "", match, now)
        if party is not None:
            return dict.fromkeys(match.players, party)
        found = {}
        for player in match.players:
            own = self._counts(player, match, now)
            if own is None:
                return {}
            found[player] = own
        return found

    def sweep(self, now: float) -> None:
        """Forget what has ended, and what nobody can still be playing."""
        for holder in list(self._of):
            left = [one for one in self._live(holder) if now - one.created_at < FORGET_S]
            if left:
                self._of[holder] = left
            else:
                del self._of[holder]
        for server, match in list(self._on.items()):
            if match.ended or now - match.created_at >= FORGET_S:
                del self._on[server]

    def _counts(self, holder: str, asking: Match, now: float) -> Match | None:
        live = [one for one in self._live(holder) if one is not asking]
        if not live:
            return None
        newest = live[-1]
        if newest.asking or now - newest.ready_at < self.cooldown_s or len(live) >= AT_ONCE:
            return newest
        return None

    def _live(self, holder: str) -> list[Match]:
        return [one for one in self._of.get(holder, ()) if _is_live(one)]


def end_those_not_on(matches: Iterable[Match], ports: Collection[int]) -> None:
    """Mark the matches whose server is none of the running ones."""
    for match in matches:
        if match.server is not None and match.server.port not in ports:
            match.ended = True


def _is_live(match: Match) -> bool:
    return not match.ended and (match.asking or match.state is State.IN_PROGRESS)


def _holders(match: Match) -> list[str]:
    return [*match.players, *([match.party_id] if match.party_id is not None else [])]
