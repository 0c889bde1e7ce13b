"""Players who join, wait and leave at random. Spec: 1 §3 Matchmaking candidate."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.play.matchmaking.matches import Match, Server, State
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from tests.support.proves import proves


class QueueMachine(RuleBasedStateMachine):
    """Several players at random: queued once, expected once, never more than four a hunt."""

    def __init__(self) -> None:
        super().__init__()
        self.matchmaker, self.now = Matchmaker(), 0.0
        self.launched: list[Match] = []

    @rule(player=st.sampled_from("abcdefgh"), hunt=st.sampled_from(["A", "B"]))
    def join(self, player: str, hunt: str) -> None:
        entry = self.matchmaker.join(player, LaunchRequest("ISLAND", "", hunt), None, self.now)
        self._launch_if_due(entry.match)

    @rule(player=st.sampled_from("abcdefgh"))
    def city(self, player: str) -> None:
        entry = self.matchmaker.join(player, LaunchRequest("CITY", "", ""), None, self.now)
        self._launch_if_due(entry.match)

    @rule(player=st.sampled_from("abcdefgh"), later=st.floats(0, 30))
    def poll(self, player: str, later: float) -> None:
        self.now += later
        entry = self.matchmaker.entry(player, self.now)
        if entry is not None:
            self._launch_if_due(entry.match)

    @rule(player=st.sampled_from("abcdefgh"))
    def leave(self, player: str) -> None:
        self.matchmaker.leave(player)

    def _launch_if_due(self, match: Match) -> None:
        if not self.matchmaker.due(match, self.now):
            return
        wish = self.matchmaker.asking(match, self.now)
        assert len(set(wish.players)) == len(wish.players) <= 4
        assert match not in self.launched
        self.launched.append(match)
        if len(self.launched) % 3:
            self.matchmaker.ready(match, Server("h", 1), self.now)
        else:
            self.matchmaker.failed(match)

    @invariant()
    def a_player_waits_once(self) -> None:
        waiting = [one for match in self.matchmaker._queues.values() for one in match.players]
        assert len(waiting) == len(set(waiting))
        for match in self.matchmaker._queues.values():
            assert match.state is State.MATCHING and 0 < len(match.players) < 4


QueueMachineTests = QueueMachine.TestCase
QueueMachineTests.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class RulesTests(SynchronousTestCase):
    @proves("POST /candidate/join")
    def test_only_a_leader_chooses(self) -> None:
        class Group:
            id, leader, members = "p", "a", ("a", "b")

        with self.assertRaises(Malformed):
            Matchmaker().join("b", LaunchRequest("ISLAND", "", "A"), Group(), 0.0)
