"""Spec: 1 §3 Matchmaking candidate, §4 Matchmaking."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionLost
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.matchmaking.rules import Match, Matchmaker, Server, State
from tests.support.browser import Page
from tests.support.game import Game, Player

HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "Hunt_A"}
CITY = {"gameMode": "CITY", "gameArgs": "", "playerHuntId": "ShatteredIsles_ReturnTo_City"}
KEYS = ["candidateId", "gameMode", "huntId", "status", "statusReason"]


class Reply:
    """What the deploy server said."""

    def __init__(self, code: int, body: Any) -> None:
        self.code, self.body = code, body

    def json(self) -> Deferred[Any]:
        if isinstance(self.body, bytes):
            return fail(ValueError("not JSON"))
        return succeed(json.loads(json.dumps(self.body)))


class Deploy:
    """Stands for treq: remembers what was asked, answers what the test says."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Any = Reply(200, {"host": "203.0.113.9", "port": 8775})
        self.held: list[Deferred[Any]] = []
        self.hold = False

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        assert url == "http://127.0.0.1:61001/api/matchmaker/handle-matchmaking-for-player"
        self.asked.append(sent["json"])
        if self.hold:
            self.held.append(Deferred())
            return self.held[-1]
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)


class MatchmakingCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **environ: str) -> None:
        self.deploy = Deploy()
        self.game = Game(self, http=self.deploy, **environ)
        self.players = [self.game.player(f"player_{n}") for n in range(6)]
        self.ann, self.bob = self.players[:2]

    def join(self, player: Player, **body: Any) -> Page:
        return self.game.browse("POST", "/candidate/join", json=body, token=player.token)

    def status(self, player: Player) -> Page:
        return self.game.browse("GET", "/candidate/status", token=player.token)

    def party(self, leader: Player, *members: Player) -> None:
        for member in members:
            invited = {"recipientPlayerId": member.id}
            self.game.browse("POST", "/party", json={}, token=member.token)
            page = self.game.browse("PUT", "/party/invite", json=invited, token=leader.token)
            self.assertEqual(page.status, 200, page.body)
            invites = self.game.browse("GET", "/party/invites", token=member.token).json
            party_id = (
                invites["payload"]["invitations"][0]["partyId"]
                if "payload" in invites
                else invites["invitations"][0]["partyId"]
            )
            page = self.game.browse("PUT", f"/party/invite/accept/{party_id}", token=member.token)
            self.assertEqual(page.status, 200, page.body)


class WorldTests(MatchmakingCase):
    def test_the_city_is_asked_for_at_once_and_learned_from_the_poll(self) -> None:
        page = self.join(self.ann, **CITY)
        self.assertEqual(
            (page.status, list(page.json), page.json["status"]), (200, KEYS, "MATCHING")
        )
        self.assertEqual(
            self.deploy.asked,
            [{"GameMode": "CITY", "GameArgs": "", "HuntId": CITY["playerHuntId"]}],
        )
        said = self.status(self.ann).json
        self.assertEqual(
            (said["status"], said["gameMode"], said["playerStates"]),
            ("IN_PROGRESS", "ISLAND", {self.ann.id: {}}),
        )
        self.assertEqual(
            said["serverInfo"],
            {
                "buildId": "239827_1.4.4_shipping",
                "gameSessionId": page.json["candidateId"],
                "host": "203.0.113.9",
                "port": 8775,
            },
        )
        self.assertEqual(
            (said["candidateStatusPeriodMillis"], said["statusDuration"]), (10000, 0.0)
        )

    def test_dojo_blank_hunts_and_the_tutorial_go_at_once_too(self) -> None:
        tutorial = "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=?x"
        for body in (
            {"gameMode": "SHARED", "playerHuntId": "ShatteredIsles_TrainingDojo"},
            {"gameMode": "ISLAND", "gameArgs": tutorial, "playerHuntId": ""},
            {"gameMode": "ODD"},
            {"gameMode": "ISLAND", "playerHuntId": "ShatteredIsles_ReturnToX"},
        ):
            self.join(self.ann, **body)
            self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")
            self.assertNotIn("ExpectedPlayers", self.deploy.asked[-1])

    def test_off_or_bad_input_is_an_empty_400_and_keeps_the_older_join(self) -> None:
        self.join(self.ann, **CITY)
        for body in (
            {"playerHuntId": "a b"},
            {"gameMode": 7},
            {"gameMode": "ISLAND", "gameArgs": "/etc"},
        ):
            page = self.join(self.ann, **body)
            self.assertEqual((page.status, page.body), (400, b""))
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")
        for mode in ("", "DISABLED"):
            self.start(MATCHMAKING_MODE=mode)
            self.assertEqual(self.join(self.ann, **CITY).status, 400)
        self.start(MATCHMAKING_MODE="anything")
        self.assertEqual(self.join(self.ann, **CITY).status, 200)

    def test_not_queued_is_an_empty_404(self) -> None:
        page = self.status(self.ann)
        self.assertEqual((page.status, page.body), (404, b""))
        self.assertEqual(self.game.browse("GET", "/candidate/status").status, 401)

    def test_every_unusable_answer_is_failed_and_asked_once(self) -> None:
        for answer in (
            Reply(500, {"error": "no_game_server"}),
            Reply(404, {}),
            Reply(200, {"port": 1}),
            Reply(200, {"host": "", "port": 1}),
            Reply(200, {"host": "h", "port": "8775"}),
            Reply(200, {"host": "h", "port": 0}),
            Reply(200, {"host": "h", "port": True}),
            Reply(200, {"host": "h", "port": 8775.0}),
            Reply(200, b"<html>"),
            Reply(200, []),
            ConnectionLost(),
            Reply(503, {"error": "other"}),
            Reply(503, {"error": "capacity_unavailable", "reason": "odd"}),
        ):
            self.deploy.asked.clear()
            self.deploy.answer = answer
            self.join(self.ann, **CITY)
            for _ in range(3):
                said = self.status(self.ann).json
                self.assertEqual(said["status"], "FAILED")
                self.assertNotIn("serverInfo", said)
                self.game.clock.advance(30)
            self.assertEqual(len(self.deploy.asked), 1)
        self.deploy.answer = Reply(200, {"host": "h", "port": 1})
        self.join(self.ann, **CITY)
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")

    def test_capacity_is_retried_on_active_polls_for_five_minutes(self) -> None:
        for reason in ("memory", "ports"):
            self.start()
            self.deploy.answer = Reply(503, {"error": "capacity_unavailable", "reason": reason})
            self.join(self.ann, **CITY)
            self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
            self.assertEqual(len(self.deploy.asked), 1)
            for _ in range(29):
                self.game.clock.advance(10)
                self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
            self.assertEqual(len(self.deploy.asked), 30)
            self.game.clock.advance(10)
            self.assertEqual(self.status(self.ann).json["status"], "FAILED")

    def test_room_that_comes_free_ends_the_wait(self) -> None:
        self.deploy.answer = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})
        self.join(self.ann, **CITY)
        self.deploy.answer = Reply(200, {"host": "h", "port": 9})
        self.game.clock.advance(10)
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")

    def test_a_slow_launch_outlives_the_players_request(self) -> None:
        self.deploy.hold = True
        asked = self.game.browse.ask("POST", "/candidate/join", json=CITY, token=self.ann.token)
        self.assertNoResult(asked)
        self.game.clock.advance(2.5)
        self.game.browse.flush()
        self.assertEqual(self.successResultOf(asked).status, 200)
        polled = self.game.browse.ask("GET", "/candidate/status", token=self.ann.token)
        self.deploy.held[0].callback(Reply(200, {"host": "h", "port": 9}))
        self.game.browse.flush()
        self.assertEqual(self.successResultOf(polled).json["status"], "IN_PROGRESS")

    def test_a_silent_deploy_server_is_a_failure(self) -> None:
        self.deploy.hold = True
        self.game.browse.ask("POST", "/candidate/join", json=CITY, token=self.ann.token)
        self.game.clock.advance(30)
        self.assertEqual(self.status(self.ann).json["status"], "FAILED")


class QueueTests(MatchmakingCase):
    def test_four_players_close_a_hunt_at_once_each_expected_once(self) -> None:
        for player in self.players[:3]:
            self.join(player, **HUNT)
            self.assertEqual(self.status(player).json["status"], "MATCHING")
        self.join(self.players[0], **HUNT)
        self.assertEqual(self.deploy.asked, [])
        self.join(self.players[3], **HUNT)
        [asked] = self.deploy.asked
        self.assertEqual((asked["GameMode"], asked["HuntId"]), ("ISLAND", "Hunt_A"))
        expected = [one.id for one in (*self.players[1:3], self.players[0], self.players[3])]
        self.assertEqual(asked["ExpectedPlayers"], expected)
        for player in self.players[:4]:
            self.assertEqual(self.status(player).json["status"], "IN_PROGRESS")

    def test_twenty_seconds_without_a_joiner_close_it_on_a_poll(self) -> None:
        self.join(self.ann, **HUNT)
        self.game.clock.advance(15)
        self.join(self.bob, **HUNT)
        self.game.clock.advance(20)
        self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
        self.game.clock.advance(0.1)
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")
        self.assertEqual(self.deploy.asked[0]["ExpectedPlayers"], [self.ann.id, self.bob.id])

    def test_a_new_join_replaces_the_older_waiting_one(self) -> None:
        first = self.join(self.ann, **HUNT).json["candidateId"]
        self.game.clock.advance(15)
        second = self.join(self.ann, **HUNT).json["candidateId"]
        self.assertNotEqual(first, second)
        self.join(self.ann, **(HUNT | {"playerHuntId": "Hunt_B"}))
        self.game.clock.advance(21)
        self.assertEqual(self.status(self.ann).json["huntId"], "Hunt_B")
        [asked] = self.deploy.asked
        self.assertEqual((asked["HuntId"], asked["ExpectedPlayers"]), ("Hunt_B", [self.ann.id]))

    def test_going_to_the_city_leaves_the_queue(self) -> None:
        self.join(self.ann, **HUNT), self.join(self.bob, **HUNT)
        self.join(self.ann, **CITY)
        self.game.clock.advance(21)
        self.status(self.bob)
        self.assertEqual(self.deploy.asked[-1]["ExpectedPlayers"], [self.bob.id])

    def test_who_leaves_while_it_is_asked_is_not_expected_when_it_is_asked_again(self) -> None:
        self.deploy.hold = True
        for player in (self.ann, self.bob):
            self.join(player, **HUNT)
        self.game.clock.advance(21)
        self.game.browse.ask("GET", "/candidate/status", token=self.bob.token)
        self.join(self.ann, **(HUNT | {"playerHuntId": "Hunt_B"}))
        self.deploy.hold = False
        self.deploy.held[0].callback(
            Reply(503, {"error": "capacity_unavailable", "reason": "ports"})
        )
        self.game.clock.advance(10)
        self.assertEqual(self.status(self.bob).json["status"], "IN_PROGRESS")
        asked = [one["ExpectedPlayers"] for one in self.deploy.asked]
        self.assertEqual(asked, [[self.ann.id, self.bob.id], [self.bob.id]])

    def test_a_queue_that_is_launching_takes_nobody_more(self) -> None:
        self.deploy.hold = True
        self.join(self.ann, **HUNT)
        self.game.clock.advance(21)
        self.game.browse.ask("GET", "/candidate/status", token=self.ann.token)
        self.join(self.bob, **HUNT)
        self.game.clock.advance(5)
        self.deploy.held[0].callback(Reply(200, {"host": "h", "port": 9}))
        self.assertEqual(self.status(self.bob).json["status"], "MATCHING")
        self.assertEqual(self.deploy.asked[0]["ExpectedPlayers"], [self.ann.id])


class PartyTests(MatchmakingCase):
    def setUp(self) -> None:
        super().setUp()
        self.cleo = self.players[2]
        self.party(self.ann, self.bob, self.cleo)
        self.all = (self.ann, self.bob, self.cleo)

    def test_a_leaders_hunt_takes_the_party_along_in_one_launch(self) -> None:
        joined = self.join(self.ann, **HUNT).json
        [asked] = self.deploy.asked
        self.assertEqual(asked["ExpectedPlayers"], [one.id for one in self.all])
        for player in self.all:
            said = self.status(player).json
            self.assertEqual(
                (said["candidateId"], said["status"]), (joined["candidateId"], "IN_PROGRESS")
            )
            self.assertEqual(set(said["playerStates"]), {one.id for one in self.all})

    def test_the_party_poll_shows_it_until_a_minute_after_the_last_was_sent(self) -> None:
        joined = self.join(self.ann, **HUNT).json
        for player in self.all:
            self.status(player)
        shown = json.dumps(self.game.browse("POST", "/party", json={}, token=self.bob.token).json)
        self.assertIn(joined["candidateId"], shown)
        self.game.clock.advance(60)
        shown = json.dumps(self.game.browse("POST", "/party", json={}, token=self.bob.token).json)
        self.assertNotIn(joined["candidateId"], shown)

    def test_a_member_follows_the_leaders_candidate_and_no_other(self) -> None:
        candidate = self.join(self.ann, **HUNT).json["candidateId"]
        page = self.game.browse(
            "POST", f"/candidate/join/{candidate}", json={"buildId": "x"}, token=self.bob.token
        )
        self.assertEqual((page.status, list(page.json), page.json["huntId"]), (200, KEYS, "Hunt_A"))
        for player, wanted in ((self.players[4], candidate), (self.bob, "other")):
            page = self.game.browse("POST", f"/candidate/join/{wanted}", token=player.token)
            self.assertEqual((page.status, page.body), (404, b""))

    def test_the_same_join_again_starts_nothing_new_and_sends_again_after_twenty_seconds(
        self,
    ) -> None:
        first = self.join(self.ann, **HUNT).json["candidateId"]
        self.status(self.ann)
        self.assertEqual(self.join(self.ann, **HUNT).json["candidateId"], first)
        self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
        self.game.clock.advance(20)
        self.assertEqual(self.status(self.ann).json["serverInfo"]["port"], 8775)
        self.assertEqual(len(self.deploy.asked), 1)

    def test_who_was_not_sent_yet_is_sent_at_once_after_joining_again(self) -> None:
        self.join(self.ann, **HUNT)
        self.join(self.ann, **HUNT)  # the game joins twice while it loads
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")

    def test_a_second_hunt_on_the_same_port_leaves_the_party_poll_too(self) -> None:
        for hunt in ("Hunt_A", "Hunt_B", "Hunt_A"):
            candidate = self.join(self.ann, **(HUNT | {"playerHuntId": hunt})).json["candidateId"]
            for player in self.all:
                self.status(player)
            self.game.clock.advance(60)
            page = self.game.browse("POST", "/party", json={}, token=self.bob.token)
            self.assertNotIn(candidate, json.dumps(page.json))

    def test_a_member_choosing_another_hunt_is_400_and_the_city_is_alone(self) -> None:
        self.assertEqual(self.join(self.bob, **HUNT).status, 400)
        self.join(self.ann, **HUNT)
        self.assertEqual(self.join(self.bob, **(HUNT | {"playerHuntId": "Hunt_B"})).status, 400)
        self.assertEqual(self.join(self.bob, **CITY).status, 200)
        self.assertNotIn("ExpectedPlayers", self.deploy.asked[-1])

    def test_the_leader_takes_to_the_city_who_was_on_the_same_server(self) -> None:
        self.join(self.ann, **HUNT)
        for player in (self.ann, self.bob):
            self.status(player)
        self.join(self.ann, **CITY)
        self.assertNotIn("ExpectedPlayers", self.deploy.asked[-1])
        self.assertEqual(
            set(self.status(self.bob).json["playerStates"]), {self.ann.id, self.bob.id}
        )
        self.assertEqual(self.status(self.cleo).json["huntId"], "Hunt_A")

    def test_who_leaves_before_the_server_is_up_stays_behind(self) -> None:
        self.deploy.answer = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})
        self.join(self.ann, **HUNT)
        self.game.browse("DELETE", "/party/member", token=self.bob.token)
        self.assertEqual(self.status(self.bob).status, 404)
        self.deploy.answer = Reply(200, {"host": "h", "port": 9})
        self.game.clock.advance(10)
        self.status(self.ann)
        self.assertEqual(self.deploy.asked[-1]["ExpectedPlayers"], [self.ann.id, self.cleo.id])

    def test_a_failed_launch_fails_every_member_and_clears_the_candidate(self) -> None:
        self.deploy.answer = Reply(500, {})
        candidate = self.join(self.ann, **HUNT).json["candidateId"]
        for player in self.all:
            self.assertEqual(self.status(player).json["status"], "FAILED")
        shown = json.dumps(self.game.browse("POST", "/party", json={}, token=self.bob.token).json)
        self.assertNotIn(candidate, shown)


class CancelTests(MatchmakingCase):
    def test_without_the_switch_both_are_404_before_any_credential(self) -> None:
        for path in ("/candidate", "/candidate/leave"):
            for token in (None, self.ann.token):
                page = self.game.browse("DELETE", path, token=token)
                self.assertEqual((page.status, page.body), (404, b""))

    def test_a_waiting_player_leaves(self) -> None:
        self.start(MATCHMAKING_CANCEL="1")
        for path in ("/candidate", "/candidate/leave"):
            self.join(self.ann, **HUNT)
            page = self.game.browse("DELETE", path, token=self.ann.token)
            self.assertEqual((page.status, page.json), (200, {}))
            self.assertEqual(self.status(self.ann).status, 404)
        self.assertEqual(self.game.browse("DELETE", "/candidate", token=self.ann.token).json, {})
        self.game.clock.advance(30)
        self.assertEqual(self.deploy.asked, [])

    def test_a_leaders_cancel_is_the_partys_and_a_members_only_their_own(self) -> None:
        self.start(MATCHMAKING_CANCEL="1")
        self.party(self.ann, self.bob)
        busy = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})
        for who, left in ((self.ann, (self.ann, self.bob)), (self.bob, (self.bob,))):
            self.deploy.answer = busy
            self.join(self.ann, **HUNT)
            self.game.browse("DELETE", "/candidate", token=who.token)
            for player in (self.ann, self.bob):
                self.assertEqual(self.status(player).status, 404 if player in left else 200)


class SmallRouteTests(MatchmakingCase):
    def test_they_say_what_the_client_wants(self) -> None:
        ask = self.game.browse
        token = self.ann.token
        self.assertEqual(ask("POST", "/candidate/player/register", json={}, token=token).json, {})
        alive = ask("POST", "/candidate/player/alive", json={"playerIds": ["a", "b"]}, token=token)
        self.assertEqual(alive.json, {"expectedPlayerIds": ["a", "b"]})
        for body in ({}, {"playerIds": "a"}, []):
            self.assertEqual(
                ask("POST", "/candidate/player/alive", json=body, token=token).json,
                {"expectedPlayerIds": []},
            )
        page = ask("POST", "/key/generate", json={}, token=token)
        self.assertEqual((page.status, page.body), (400, b""))
        pong = ask("GET", "/qos")
        self.assertEqual(
            (pong.status, pong.headers["content-type"].split(";")[0]), (200, "text/html")
        )
        self.assertIn(b"pong", pong.body)
        for path in ("/candidate/player/register", "/candidate/player/alive", "/key/generate"):
            self.assertEqual(ask("POST", path, json={}).status, 401)

    def test_the_region_is_the_one_of_the_settings(self) -> None:
        self.assertEqual(
            self.game.browse("GET", "/candidate/regions", token=self.ann.token).json["payload"][
                "regionUrls"
            ],
            [],
        )
        self.start(QOS_TARGET_URL="http://127.0.0.1:61000/QoS")
        said = self.game.browse("GET", "/candidate/regions", token=self.ann.token).json
        self.assertEqual((said["code"], said["payload"]["pingCount"]), (200, 5))
        self.assertEqual(said["payload"]["regionUrls"], ["http://127.0.0.1:61000/QoS"])

    def test_misc_routes_off_hides_alive(self) -> None:
        self.start(MISC_ROUTES="0")
        page = self.game.browse("POST", "/candidate/player/alive", json={}, token=self.ann.token)
        self.assertEqual(page.status, 404)


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
            self.matchmaker.ready(match, Server("h", 1))
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
    def test_only_a_leader_chooses(self) -> None:
        class Group:
            id, leader, members = "p", "a", ("a", "b")

        with self.assertRaises(Malformed):
            Matchmaker().join("b", LaunchRequest("ISLAND", "", "A"), Group(), 0.0)
