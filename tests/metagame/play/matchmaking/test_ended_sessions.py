"""Sessions end while somebody waits or plays: a new key leaves no place behind. Spec: 1 §5."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from tests.metagame.play.matchmaking.base import HUNT, MatchmakingCase, Reply
from tests.support.game import Player

FULL = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})


class EndedTests(MatchmakingCase):
    def end_sessions(self, player: Player) -> str:
        """As for a new key; a token that counts from now on."""
        self.successResultOf(Deferred.fromCoroutine(self.game.parts.sessions.end(player.id)))
        self.assertEqual(self.status(player).status, 401)
        return self.game.parts.tokens.sign(player.id)

    def test_a_place_in_a_queue_ends_and_the_others_go_without_it(self) -> None:
        ann, bob, *others = self.players
        for one in (ann, bob):
            self.assertEqual(self.join(one, **HUNT).status, 200)
        fresh = self.end_sessions(ann)
        self.assertEqual(
            self.game.browse("GET", "/candidate/status", token=fresh).status,
            self.status(others[0]).status,  # of somebody who never asked
        )
        for one in others[:2]:
            self.join(one, **HUNT)
        self.assertEqual(self.deploy.asked, [])  # three wait, and four would go at once
        self.join(others[2], **HUNT)
        self.status(bob)
        [asked] = self.deploy.asked
        self.assertEqual(asked["ExpectedPlayers"], [one.id for one in (bob, *others[:3])])

    def test_who_waits_for_a_free_port_is_not_expected_when_there_is_one(self) -> None:
        self.deploy.answer = FULL
        for one in (self.ann, self.bob):
            self.join(one, **HUNT)
        self.game.clock.advance(21)
        self.status(self.ann)
        self.end_sessions(self.ann)
        self.game.clock.advance(11)
        self.status(self.bob)
        self.assertEqual(self.deploy.asked[-1]["ExpectedPlayers"], [self.bob.id])

    def test_a_game_server_that_was_found_is_told_to_nobody_with_an_old_token(self) -> None:
        self.join(self.ann, **HUNT)
        self.game.clock.advance(21)
        self.assertIn("serverInfo", self.status(self.ann).json)
        fresh = self.end_sessions(self.ann)
        self.assertEqual(
            self.game.browse("GET", "/candidate/status", token=fresh).status,
            self.status(self.bob).status,
        )
