"""Game servers for parties. Spec: 1 §4 Matchmaking, party rules."""

import json

from tests.metagame.play.matchmaking.base import CITY, HUNT, KEYS, MatchmakingCase, Reply
from tests.support.proves import proves


class PartyTests(MatchmakingCase):
    def setUp(self) -> None:
        super().setUp()
        self.cleo = self.players[2]
        self.party(self.ann, self.bob, self.cleo)
        self.all = (self.ann, self.bob, self.cleo)

    @proves("POST /candidate/join")
    def test_a_leaders_hunt_takes_the_party_along_in_one_launch(self) -> None:
        joined = self.join(self.ann, **HUNT).json
        [request] = self.deploy.requests
        self.assertEqual(request["ExpectedPlayers"], [member.id for member in self.all])
        for player in self.all:
            reply = self.status(player).json
            self.assertEqual(
                (reply["candidateId"], reply["status"]), (joined["candidateId"], "IN_PROGRESS")
            )
            self.assertEqual(set(reply["playerStates"]), {member.id for member in self.all})

    @proves("GET /candidate/status")
    def test_the_party_poll_shows_a_hunt_until_a_minute_after_the_last(self) -> None:
        joined = self.join(self.ann, **HUNT).json
        for player in self.all:
            self.status(player)
        shown = json.dumps(self.game.browse("POST", "/party", json={}, token=self.bob.token).json)
        self.assertIn(joined["candidateId"], shown)
        self.game.clock.advance(60)
        shown = json.dumps(self.game.browse("POST", "/party", json={}, token=self.bob.token).json)
        self.assertNotIn(joined["candidateId"], shown)

    @proves(
        "candidate none: join by candidate id follows the leader",
        "POST /candidate/join/:candidateId",
    )
    def test_a_member_follows_the_leaders_candidate_and_no_other(self) -> None:
        candidate = self.join(self.ann, **HUNT).json["candidateId"]
        page = self.game.browse(
            "POST", f"/candidate/join/{candidate}", json={"buildId": "x"}, token=self.bob.token
        )
        self.assertEqual((page.status, list(page.json), page.json["huntId"]), (200, KEYS, "Hunt_A"))
        for player, wanted in ((self.players[4], candidate), (self.bob, "other")):
            page = self.game.browse("POST", f"/candidate/join/{wanted}", token=player.token)
            self.assertEqual((page.status, page.body), (404, b""))

    @proves("POST /candidate/join")
    def test_a_repeated_join_sends_the_player_again_after_20_seconds(
        self,
    ) -> None:
        first = self.join(self.ann, **HUNT).json["candidateId"]
        self.status(self.ann)
        self.assertEqual(self.join(self.ann, **HUNT).json["candidateId"], first)
        self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
        self.game.clock.advance(20)
        self.assertEqual(self.status(self.ann).json["serverInfo"]["port"], 8775)
        self.assertEqual(len(self.deploy.requests), 1)

    def test_a_second_join_during_loading_delays_no_player(self) -> None:
        self.join(self.ann, **HUNT)
        self.join(self.ann, **HUNT)  # the game joins twice while it loads
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")

    def test_a_finished_hunt_leaves_the_party_poll_even_on_a_reused_port(self) -> None:
        for hunt in ("Hunt_A", "Hunt_B", "Hunt_A"):
            candidate = self.join(self.ann, **(HUNT | {"playerHuntId": hunt})).json["candidateId"]
            for player in self.all:
                self.status(player)
            self.game.clock.advance(60)
            page = self.game.browse("POST", "/party", json={}, token=self.bob.token)
            self.assertNotIn(candidate, json.dumps(page.json))

    @proves("POST /candidate/join")
    def test_a_member_choosing_another_hunt_is_400_and_the_city_is_alone(self) -> None:
        self.assertEqual(self.join(self.bob, **HUNT).status, 400)
        self.join(self.ann, **HUNT)
        self.assertEqual(self.join(self.bob, **(HUNT | {"playerHuntId": "Hunt_B"})).status, 400)
        self.assertEqual(self.join(self.bob, **CITY).status, 200)
        self.assertNotIn("ExpectedPlayers", self.deploy.requests[-1])

    @proves("POST /candidate/join")
    def test_the_leader_takes_players_of_the_same_server_to_the_city(self) -> None:
        self.join(self.ann, **HUNT)
        for player in (self.ann, self.bob):
            self.status(player)
        self.join(self.ann, **CITY)
        self.assertNotIn("ExpectedPlayers", self.deploy.requests[-1])
        self.assertEqual(
            set(self.status(self.bob).json["playerStates"]), {self.ann.id, self.bob.id}
        )
        self.assertEqual(self.status(self.cleo).json["huntId"], "Hunt_A")

    @proves("POST /candidate/join")
    def test_a_launch_does_not_expect_members_that_left_the_party(self) -> None:
        self.deploy.answer = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})
        self.join(self.ann, **HUNT)
        self.game.browse("DELETE", "/party/member", token=self.bob.token)
        self.assertEqual(self.status(self.bob).status, 404)
        self.deploy.answer = Reply(200, {"host": "h", "port": 9})
        self.game.clock.advance(10)
        self.status(self.ann)
        self.assertEqual(self.deploy.requests[-1]["ExpectedPlayers"], [self.ann.id, self.cleo.id])

    @proves("POST /candidate/join")
    def test_a_failed_launch_fails_every_member_and_clears_the_candidate(self) -> None:
        self.deploy.answer = Reply(500, {})
        candidate = self.join(self.ann, **HUNT).json["candidateId"]
        for player in self.all:
            self.assertEqual(self.status(player).json["status"], "FAILED")
        shown = json.dumps(self.game.browse("POST", "/party", json={}, token=self.bob.token).json)
        self.assertNotIn(candidate, shown)
