"""Operations of matchmaking: join, follow, poll, cancel, leave.

Nothing is stored: a restart forgets queues and candidates. Spec: 1 §4 Matchmaking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Missing
from svcserver.kernel.signals import Heard, Signal
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.matches import Entry, Group, State
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from svcserver.metagame.social.parties.rules import Party

JOIN_WAITS_S = 2.5
POLL_WAITS_S = 1.5


class PartyBook(Protocol):
    """What matchmaking asks of the parties."""

    def of(self, account_id: AccountId) -> Deferred[Party | None]: ...

    def hear(self, account_id: AccountId) -> Deferred[None]: ...


@frozen
class MatchmakingActs:
    """What a player does, alone or with a party."""

    matchmaker: Matchmaker
    launching: Launching
    parties: PartyBook
    heard: Signal[Heard]
    now: Callable[[], float]

    async def join(self, player: AccountId, wish: LaunchRequest) -> Entry:
        """A place for the wish, or the one that the player has already."""
        entry = self.matchmaker.join(player, wish, await self._group(player), self.now())
        if not entry.match.queued:
            await self.launching.wait(entry.match, JOIN_WAITS_S)
            entry = self.matchmaker.entry(player, self.now()) or entry  # an earlier launch, perhaps
        return entry

    async def follow(self, player: AccountId, candidate_id: str) -> Entry:
        """A party member follows the leader's candidate; raises Missing."""
        group = await self._group(player)
        return self.matchmaker.follow(player, candidate_id, group, self.now())

    async def poll(self, player: AccountId) -> tuple[Entry, State]:
        """Where the player stands; starts what is due and retries capacity. Raises Missing."""
        entry = self._entry(player)
        if entry.match.party_id is not None:
            await self.parties.hear(player)
            self.heard.send(Heard(player))
        await self.launching.wait(entry.match, POLL_WAITS_S)
        entry, now = self._entry(player), self.now()
        state = entry.state(now)
        if state is State.IN_PROGRESS:
            self.matchmaker.sent(player, entry, now)
        return entry, state

    def _entry(self, player: AccountId) -> Entry:
        entry = self.matchmaker.entry(player, self.now())
        if entry is None:
            raise Missing("not queued")
        return entry

    async def cancel(self, player: AccountId) -> None:
        """A party leader's cancel is the party's."""
        self.matchmaker.cancel(player, await self._group(player))

    def leave(self, player: AccountId) -> None:
        """Only this player."""
        self.matchmaker.leave(player)

    async def _group(self, player: AccountId) -> Group | None:
        party = await self.parties.of(player)
        return None if party is None or len(party.members) < 2 else party
