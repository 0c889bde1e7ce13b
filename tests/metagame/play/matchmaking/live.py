"""The matchmaking rules on a board; each call is one transaction at a chosen time.

A match is represented by one object, whose attributes are read from the board at each access.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import evolve

from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.signals import PartyChanged
from svcserver.metagame.play.matches import HuntGroup, Match, MatchEntry, Sent, Server
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.social.parties.rules import PartyCandidate
from tests.support.live import TestBoard

T = TypeVar("T")


class BoardMatch:
    """A match whose attributes are read from and written to the board."""

    def __init__(self, world: BoardMatchmaker, match_id: str) -> None:
        object.__setattr__(self, "_at", (world, match_id))

    @property
    def is_gone(self) -> bool:
        world, match_id = self._at
        return world.do(lambda rules: rules.stored.match(match_id)) is None

    def __getattr__(self, name: str) -> Any:
        world, match_id = self._at
        return getattr(world.do(lambda rules: rules.stored.match(match_id)), name)

    def __setattr__(self, name: str, value: Any) -> None:
        world, match_id = self._at
        world.do(lambda rules: setattr(rules.stored.match(match_id), name, value))


class BoardMatchmaker:
    """The operations of ``Matchmaker``; ``now`` defaults to the time of the previous call."""

    def __init__(self, cooldown_s: float = 0.0, live: Callable[[], Any] = TestBoard) -> None:
        self.live = live()
        self.matches = LiveMatches(
            self.live.board, lambda: cooldown_s, asked_s=1e9
        )  # the process that requested the launch is alive
        self._known: dict[str, Any] = {}

    def do(self, work: Callable[[Matchmaker], T], now: float | None = None) -> T:
        def job(transaction: Any) -> T:
            with self.matches.rules_on(transaction) as rules:
                return work(rules)

        return self.live.do(job, now)

    def on(self, match: Any, work: Callable[[Matchmaker, Match], T], now: float | None = None) -> T:
        def job(rules: Matchmaker) -> T:
            stored = rules.stored.match(match.id)
            assert stored is not None
            return work(rules, stored)

        return self.do(job, now)

    def wrap_entry(self, entry: MatchEntry) -> MatchEntry:
        match: Any = self._known.setdefault(entry.match.id, BoardMatch(self, entry.match.id))
        return evolve(entry, match=match)

    def join(
        self, player: str, request: LaunchRequest, group: HuntGroup | None, now: float | None = None
    ) -> MatchEntry:
        return self.wrap_entry(self.do(lambda rules: rules.join(player, request, group), now))

    def entry(self, player: str, now: float | None = None) -> MatchEntry | None:
        entry = self.do(lambda rules: rules.entry(player), now)
        return None if entry is None else self.wrap_entry(entry)

    def follow(self, player: str, named: str, group: HuntGroup | None, now: float) -> MatchEntry:
        return self.wrap_entry(self.do(lambda rules: rules.follow(player, named, group), now))

    def due(self, match: Any, now: float) -> bool:
        return self.on(match, lambda rules, stored: rules.due(stored), now)

    def asking(self, match: Any, now: float) -> LaunchRequest:
        return self.on(match, lambda rules, stored: rules.asking(stored), now)

    def ready(self, match: Any, server: Server, now: float) -> None:
        self.on(match, lambda rules, stored: rules.ready(stored, server), now)

    def refused(self, match: Any, now: float) -> None:
        self.on(match, lambda rules, stored: rules.refused(stored), now)

    def failed(self, match: Any) -> None:
        self.on(match, lambda rules, stored: rules.failed(stored))

    def sent(self, player: str, now: float | None = None) -> None:
        def job(rules: Matchmaker) -> None:
            entry = rules.entry(player)
            assert entry is not None
            rules.sent(player, entry)

        self.do(job, now)

    def last_sent(self, player: str) -> Sent | None:
        return self.do(lambda rules: rules.last_sent(player))

    def leave(self, player: str) -> None:
        self.do(lambda rules: rules.leave(player))

    def cancel(self, player: str, group: HuntGroup | None) -> None:
        self.do(lambda rules: rules.cancel(player, group))

    def left_party(self, party_id: str, players: tuple[str, ...]) -> None:
        news = PartyChanged(party_id, players)
        self.live.do(lambda transaction: self.matches.left_party(transaction, news))

    def of_party(self, party_id: str, now: float) -> PartyCandidate | None:
        return self.live.do(lambda transaction: self.matches.of_party(transaction, party_id), now)
