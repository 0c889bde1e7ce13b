"""Maintenance mode: no new hunts, and those who wait are told so. Spec: 1 §4 Matchmaking."""

from __future__ import annotations

from svcserver.metagame.play.drain import DRAIN, ONLY, Drain
from tests.metagame.play.matchmaking.base import CITY, HUNT, MatchmakingCase
from tests.support.proves import proves

TUTORIAL = {
    "gameMode": "ISLAND",
    "gameArgs": "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=",
    "playerHuntId": "",
}


class DrainTests(MatchmakingCase):
    def drain(self, on: bool = True) -> None:
        drain = Drain("Olga", self.game.clock.seconds())
        self.successResultOf(
            self.game.parts.board.transact(
                lambda transaction: (
                    transaction.put(DRAIN, ONLY, drain) if on else transaction.drop(DRAIN, ONLY)
                )
            )
        )

    @proves("maintenance mode: no new hunt begins, running ones end")
    def test_a_new_hunt_is_refused_as_where_there_is_none_and_the_city_is_not(self) -> None:
        self.drain()
        for wish in (HUNT, TUTORIAL):
            page = self.join(self.ann, **wish)
            self.assertEqual((page.status, page.body), (400, b""))
        self.assertEqual(self.join(self.ann, **CITY).status, 200)
        self.drain(on=False)
        self.assertEqual(self.join(self.ann, **HUNT).status, 200)

    def test_who_waits_is_told_that_it_failed_and_no_server_starts(self) -> None:
        for one in (self.ann, self.bob):
            self.join(one, **HUNT)
        self.drain()
        self.game.clock.advance(1)
        for one in (self.ann, self.bob):
            self.assertEqual(self.status(one).json["status"], "FAILED")
        self.game.clock.advance(60)
        self.status(self.ann)
        self.assertEqual(self.deploy.asked, [])

    def test_a_hunt_that_runs_goes_on_and_its_players_find_back(self) -> None:
        self.party(self.ann, self.bob)
        self.join(self.ann, **HUNT)
        self.drain()
        self.assertIn("serverInfo", self.status(self.bob).json)
        self.assertEqual(self.join(self.bob, **HUNT).status, 200)
        self.assertEqual(self.join(self.ann, **{**HUNT, "playerHuntId": "Hunt_B"}).status, 400)
        self.assertIn("serverInfo", self.status(self.ann).json)
        self.assertEqual(len(self.deploy.asked), 1)

    def test_a_refused_join_leaves_the_older_place_alone(self) -> None:
        self.join(self.ann, **HUNT)
        self.game.clock.advance(21)
        self.assertIn("serverInfo", self.status(self.ann).json)
        self.drain()
        self.assertEqual(self.join(self.ann, **{**HUNT, "playerHuntId": "Hunt_B"}).status, 400)
        self.assertIn("serverInfo", self.status(self.ann).json)
