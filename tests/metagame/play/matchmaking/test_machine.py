"""Players join, wait and leave at random, on the board and on a plain model.

The board and the model must agree after every step. Spec: 1 §3 Matchmaking candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.metagame.play.matches import Match, MatchState, Server
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from tests.metagame.play.matchmaking.live import BoardMatchmaker
from tests.metagame.play.matchmaking.model import Launches, PlainMatchmaker
from tests.support.live import TestBoard
from tests.support.proves import proves

COOLDOWN_S = 60.0
PLAYERS = "abcdefgh"
who = st.sampled_from(PLAYERS)
hunts = st.sampled_from(["A", "B"])


@frozen
class Party:
    id: str
    leader: str
    members: tuple[str, ...]


PARTY = Party("party", "a", ("a", "b", "c"))


class QueueMachine(RuleBasedStateMachine):
    """A player is in at most one queue and hunt; a hunt has at most four players."""

    make_live: Callable[..., Any] = TestBoard

    def __init__(self) -> None:
        super().__init__()
        self.world = BoardMatchmaker(COOLDOWN_S, type(self).make_live)
        self.model = PlainMatchmaker(Launches(COOLDOWN_S))
        self.now = 0.0
        self.ports = 8000
        self.named: dict[str, str] = {}  # the model's name of each match and candidate
        self.launched: list[str] = []

    def group(self, player: str) -> Party | None:
        return PARTY if player in PARTY.members else None

    def same(self, mine: Any, model: Any) -> None:
        """Assert that two entries are equal apart from their generated ids."""
        assert (mine is None) == (model is None)
        if mine is None:
            return
        assert self.named.setdefault(mine.candidate_id, model.candidate_id) == model.candidate_id
        assert self.named.setdefault(mine.match.id, model.match.id) == model.match.id
        for name in ("mode", "hunt_id", "hold_until"):
            assert getattr(mine, name) == getattr(model, name)
        self.same_match(self.world.do(lambda rules: rules.stored.match(mine.match.id)), model.match)

    def same_match(self, mine: Any, model: Any) -> None:
        names = "players state queued server joined_at refused_at party_id leader told"
        for name in (*names.split(), "counts_for", "ended", "elsewhere"):
            assert getattr(mine, name) == getattr(model, name), name
        assert mine.is_asking(self.now) == model.asking

    @rule(player=who, hunt=hunts)
    def join(self, player: str, hunt: str) -> None:
        self.ask(player, LaunchRequest("ISLAND", "", hunt))

    @rule(player=who)
    def city(self, player: str) -> None:
        self.ask(player, LaunchRequest("CITY", "", ""))

    @rule(player=who)
    def tutorial(self, player: str) -> None:
        self.ask(player, LaunchRequest("ISLAND", "/Game/M?x?Class=", ""))

    def ask(self, player: str, request: LaunchRequest) -> None:
        group = self.group(player)
        try:
            model = self.model.join(player, request, group, self.now)
        except Refusal as why:
            try:
                self.world.join(player, request, group, self.now)
            except Refusal as error:
                assert (type(error), error.message) == (type(why), why.message)
                return
            raise AssertionError("only the model refuses") from why
        entry = self.world.join(player, request, group, self.now)
        self.same(entry, model)
        self.launch_if_due(entry.match, model.match)

    @rule(player=who, later=st.floats(0, 30))
    def poll(self, player: str, later: float) -> None:
        self.now += later
        entry = self.world.entry(player, self.now)
        model = self.model.entry(player, self.now)
        self.same(entry, model)
        if entry is None or model is None:
            return
        self.launch_if_due(entry.match, model.match)
        entry, model = self.world.entry(player, self.now), self.model.entry(player, self.now)
        self.same(entry, model)
        if entry is not None and entry.state(self.now) is MatchState.IN_PROGRESS:
            self.world.sent(player, self.now)
            assert model is not None
            self.model.sent(player, model, self.now)

    @rule(player=who)
    def leave(self, player: str) -> None:
        self.world.leave(player)
        self.model.leave(player)

    @rule(player=who)
    def cancel(self, player: str) -> None:
        self.world.cancel(player, self.group(player))
        self.model.cancel(player, self.group(player))

    @rule(player=who)
    def leaves_the_party_for_a_moment(self, player: str) -> None:
        self.world.left_party(PARTY.id, (player,))
        self.model.left_party(PARTY.id, (player,))

    @rule(player=who)
    def forget(self, player: str) -> None:
        self.world.do(lambda rules: rules.forget(player))
        self.model.forget(player)

    def launch_if_due(self, match: Any, model: Any) -> None:
        due = self.model.due(model, self.now)
        assert self.world.due(match, self.now) == due
        if not due:
            return
        request = self.world.asking(match, self.now)
        assert request == self.model.asking(model, self.now)
        assert len(set(request.players)) == len(request.players) <= 4
        may = self.model.may_start(model, self.now)
        assert self.world.on(match, lambda rules, stored: rules.may_start(stored), self.now) == may
        if may:
            assert match.id not in self.launched or model.refused_at is not None
            self.launched.append(match.id)
            self.decide(match, model)

    def decide(self, match: Any, model: Any) -> None:
        self.ports += 1
        if len(self.launched) % 4 == 0:
            self.world.failed(match)
            self.model.failed(model)
        elif len(self.launched) % 4 == 1:
            self.world.refused(match, self.now)
            self.model.refused(model, self.now)
        else:
            server = Server("h", self.ports)
            self.world.ready(match, server, self.now)
            self.model.ready(model, server, self.now)

    @invariant()
    def everybody_stands_where_the_model_says(self) -> None:
        for player in PLAYERS:
            self.same(self.world.entry(player, self.now), self.model.entry(player, self.now))
            mine, model = self.world.last_sent(player), self.model.last_sent(player)
            assert (mine and mine.server) == (model and model.server)
        mine, model = (
            self.world.of_party(PARTY.id, self.now),
            self.model.of_party(PARTY.id, self.now),
        )
        assert (mine is None) == (model is None)
        if mine is not None and model is not None:
            assert (mine.state, mine.members) == (model.state, model.members)

    @invariant()
    def a_player_waits_once(self) -> None:
        def queued(rules: Matchmaker) -> list[Match]:
            queues = (rules.stored.queue(hunt) for hunt in "AB")
            return [match for match in queues if match is not None]

        matches = self.world.do(queued, self.now)
        waiting = [player for match in matches for player in match.players]
        assert len(waiting) == len(set(waiting))
        for match in matches:
            assert match.state is MatchState.MATCHING and 0 < len(match.players) < 4


QueueMachineTests = QueueMachine.TestCase
QueueMachineTests.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


class RulesTests(SynchronousTestCase):
    @proves("POST /candidate/join")
    def test_only_the_party_leader_can_choose_a_hunt(self) -> None:
        class HuntGroup:
            id, leader, members = "p", "a", ("a", "b")

        with self.assertRaises(Malformed):
            BoardMatchmaker().join("b", LaunchRequest("ISLAND", "", "A"), HuntGroup(), 0.0)
