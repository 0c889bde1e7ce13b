"""Operations of matchmaking: join, follow, poll, cancel, leave.

Queues and matches are on the board (the live state), not in the database. Spec: 1 §4 Matchmaking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from attrs import frozen

from svcserver.board.board import BoardTransaction, Key, Work
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Missing
from svcserver.kernel.signals import PlayerActive, SentToHunt, Signal
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.play.matches import HuntGroup, Joined, MatchEntry, MatchState, is_world
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.store import RESULTS, LiveMatches
from svcserver.metagame.social.parties.store import LiveParties, mark_seen, near

J = TypeVar("J", MatchEntry, Joined)
JOIN_WAITS_S = 2.5
POLL_WAITS_S = 1.5


@frozen
class MatchmakingActs:
    """The matchmaking operations of a player, who may be alone or in a party."""

    matches: LiveMatches
    launching: Launching
    parties: LiveParties
    player_active: Signal[PlayerActive]
    sent_to_hunt: Signal[SentToHunt]

    async def join(
        self, player: AccountId, request: LaunchRequest, *, attempt: Attempt = ONLY
    ) -> Joined:
        """Enter the player into a match for the request; return the new or existing entry."""

        def place(transaction: BoardTransaction) -> Joined:
            group = self._group(transaction, player)
            with self.matches.rules_on(transaction) as rules:
                return Joined.from_entry(rules.join(player, request, group))

        once = attempt.in_transaction(place, RESULTS)

        def work(transaction: BoardTransaction) -> tuple[Joined, LaunchRequest | None]:
            joined = once(transaction)
            with self.matches.rules_on(transaction) as rules:
                match = rules.stored.match(joined.match_id)
                return joined, None if match is None or match.queued else rules.begin(match)

        joined = await self._begun(work, [*near(player), *attempt.near(RESULTS)])
        if joined.queued:
            return joined
        await self.launching.wait(joined.match_id, JOIN_WAITS_S)
        current = await self.matches.transact(lambda rules: rules.entry(player))
        return (
            joined if current is None else Joined.from_entry(current)
        )  # perhaps in an earlier match

    async def follow(self, player: AccountId, candidate_id: str) -> MatchEntry:
        """Return a party member's entry in the leader's match; raises Missing."""

        def work(transaction: BoardTransaction) -> MatchEntry:
            group = self._group(transaction, player)
            with self.matches.rules_on(transaction) as rules:
                return rules.follow(player, candidate_id, group)

        return await self.matches.board.transact(work)

    async def poll(self, player: AccountId) -> tuple[MatchEntry, MatchState]:
        """Return the player's entry and its state; raises Missing.

        If a launch or a retry is due, the poll starts it.
        """
        entry = await self._begun(lambda transaction: self._request_launch(transaction, player))
        if entry.match.party_id is not None:
            self.player_active.send(PlayerActive(player))
        await self.launching.wait(entry.match.id, POLL_WAITS_S)
        entry, state, news = await self.matches.board.transact(
            lambda transaction: self._standing(transaction, player)
        )
        if news and not is_world(entry.match.request()):
            self.sent_to_hunt.send(SentToHunt(player, entry.hunt_id))
        return entry, state

    @shielded
    async def _begun(
        self, work: Work[tuple[J, LaunchRequest | None]], near: Iterable[Key] = ()
    ) -> J:
        """Run a transaction and start any launch it requests, even if the client disconnects."""
        place, request = await self.matches.board.transact(work, near)
        if request is not None:
            match_id = place.match_id if isinstance(place, Joined) else place.match.id
            self.launching.start(match_id, request)
        return place

    def _request_launch(
        self, transaction: BoardTransaction, player: AccountId
    ) -> tuple[MatchEntry, LaunchRequest | None]:
        with self.matches.rules_on(transaction) as rules:
            entry = rules.entry(player)
            if entry is None:
                raise Missing("this player is in no queue")
            if entry.match.party_id is not None:
                mark_seen(transaction, player)
            return entry, rules.begin(entry.match)

    def _standing(
        self, transaction: BoardTransaction, player: AccountId
    ) -> tuple[MatchEntry, MatchState, bool]:
        """Return the player's entry, its state, and whether the player is sent to a server now."""
        with self.matches.rules_on(transaction) as rules:
            entry = rules.entry(player)
            if entry is None:
                raise Missing("this player is in no queue")
            state = entry.state(transaction.now)
            news = state is MatchState.IN_PROGRESS and rules.sent(player, entry)
            return entry, state, news

    async def cancel(self, player: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Cancel the player's search; a party leader cancels it for the whole party."""

        def work(transaction: BoardTransaction) -> None:
            group = self._group(transaction, player)
            with self.matches.rules_on(transaction) as rules:
                rules.cancel(player, group)

        await attempt.transact(self.matches.board, work, RESULTS)

    async def leave(self, player: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Remove only this player from the queue; the other members of the group stay in it."""

        def work(transaction: BoardTransaction) -> None:
            with self.matches.rules_on(transaction) as rules:
                rules.leave(player)

        await attempt.transact(self.matches.board, work, RESULTS)

    def _group(self, transaction: BoardTransaction, player: AccountId) -> HuntGroup | None:
        party = self.parties.rules_on(transaction).party_of(player)
        return None if party is None or party.is_solo else party
