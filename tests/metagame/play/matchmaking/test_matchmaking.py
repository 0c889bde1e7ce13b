"""Matchmaking candidates. Spec: 1 §3 Matchmaking candidate, §4 Matchmaking."""

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.launch_requests import ISLAND
from svcserver.metagame.play.drain import DRAIN, ONLY, Drain
from svcserver.metagame.play.matches import Match, MatchEntry, MatchState, Server
from svcserver.metagame.play.matchmaking import wire
from tests.metagame.play.matchmaking.base import CITY, HUNT, KEYS, MatchmakingCase, Reply
from tests.support.browser import Page
from tests.support.game import Player
from tests.support.proves import proves


class WorldTests(MatchmakingCase):
    @proves(
        "candidate none -> MATCHING: join",
        "GET /candidate/status",
        "POST /candidate/join",
        "candidate MATCHING -> IN_PROGRESS: host and port",
    )
    def test_the_city_is_asked_for_at_once_and_learned_from_the_poll(self) -> None:
        page = self.join(self.ann, **CITY)
        self.assertEqual(
            (page.status, list(page.json), page.json["status"]), (200, KEYS, "MATCHING")
        )
        self.assertEqual(
            self.deploy.requests,
            [{"GameMode": "CITY", "GameArgs": "", "HuntId": CITY["playerHuntId"]}],
        )
        reply = self.status(self.ann).json
        self.assertEqual(
            (reply["status"], reply["gameMode"], reply["playerStates"]),
            ("IN_PROGRESS", "ISLAND", {self.ann.id: {}}),
        )
        self.assertEqual(
            reply["serverInfo"],
            {
                "buildId": "239827_1.4.4_shipping",
                "gameSessionId": page.json["candidateId"],
                "host": "203.0.113.9",
                "port": 8775,
            },
        )
        self.assertEqual(
            (reply["candidateStatusPeriodMillis"], reply["statusDuration"], reply["statusReason"]),
            (10000, 0.0, None),
        )

    @proves("candidate none -> MATCHING: join")
    def test_dojo_tutorial_and_blank_hunts_start_at_once(self) -> None:
        tutorial = "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=?x"
        for body in (
            {"gameMode": "SHARED", "playerHuntId": "ShatteredIsles_TrainingDojo"},
            {"gameMode": "ISLAND", "gameArgs": tutorial, "playerHuntId": ""},
            {"gameMode": "ODD"},
            {"gameMode": "ISLAND", "playerHuntId": "ShatteredIsles_ReturnToX"},
        ):
            self.join(self.ann, **body)
            self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")
            self.assertNotIn("ExpectedPlayers", self.deploy.requests[-1])

    @proves("candidate none -> MATCHING: join", "POST /candidate/join")
    def test_a_bad_join_is_an_empty_400_and_keeps_the_older_join(self) -> None:
        self.join(self.ann, **CITY)
        for body in (
            {"gameMode": "ISLAND", "playerHuntId": "a b"},
            {},
            {"gameMode": None, "gameArgs": "", "playerHuntId": "Hunt_A"},
            {"gameArgs": "", "playerHuntId": ""},
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

    @proves("GET /candidate/status")
    def test_the_status_of_a_player_not_queued_is_an_empty_404(self) -> None:
        page = self.status(self.ann)
        self.assertEqual((page.status, page.body), (404, b""))
        self.assertEqual(self.game.browse("GET", "/candidate/status").status, 401)

    @proves("candidate MATCHING -> FAILED: the deploy call fails", "GET /candidate/status")
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
            self.deploy.requests.clear()
            self.deploy.answer = answer
            self.join(self.ann, **CITY)
            for _ in range(3):
                reply = self.status(self.ann).json
                self.assertEqual(reply["status"], "FAILED")
                self.assertNotIn("serverInfo", reply)
                self.game.clock.advance(30)
            self.assertEqual(len(self.deploy.requests), 1)
        self.deploy.answer = Reply(200, {"host": "h", "port": 1})
        self.join(self.ann, **CITY)
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")

    def test_the_log_has_the_reason_for_a_failed_launch(self) -> None:
        self.deploy.answer = Reply(500, {"error": "no_game_server"})
        with capturedLogs() as events:
            self.join(self.ann, **CITY)
        [line] = [event for event in events if event["log_level"] is LogLevel.warn]
        self.assertEqual((line["hunt"], line["why"]), (CITY["playerHuntId"], "status 500"))

    @proves("candidate MATCHING stays: 503 capacity_unavailable, five minutes")
    def test_capacity_is_retried_on_active_polls_for_five_minutes(self) -> None:
        for reason in ("memory", "ports"):
            self.start()
            self.deploy.answer = Reply(503, {"error": "capacity_unavailable", "reason": reason})
            self.join(self.ann, **CITY)
            self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
            self.assertEqual(len(self.deploy.requests), 1)
            for _ in range(29):
                self.game.clock.advance(10)
                self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
            self.assertEqual(len(self.deploy.requests), 30)
            self.game.clock.advance(10)
            self.assertEqual(self.status(self.ann).json["status"], "FAILED")

    @proves("candidate MATCHING stays: 503 capacity_unavailable, five minutes")
    def test_room_that_comes_free_ends_the_wait(self) -> None:
        self.deploy.answer = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})
        self.join(self.ann, **CITY)
        self.deploy.answer = Reply(200, {"host": "h", "port": 9})
        self.game.clock.advance(10)
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")

    @proves("candidate MATCHING -> IN_PROGRESS: host and port")
    def test_a_slow_launch_outlives_the_players_request(self) -> None:
        self.deploy.hold = True
        reply = self.game.browse.ask("POST", "/candidate/join", json=CITY, token=self.ann.token)
        self.assertNoResult(reply)
        self.game.clock.advance(2.5)
        self.game.browse.flush()
        self.assertEqual(self.successResultOf(reply).status, 200)
        polled = self.game.browse.ask("GET", "/candidate/status", token=self.ann.token)
        self.game.clock.advance(1.5)
        self.game.browse.flush()
        self.assertEqual(self.successResultOf(polled).json["status"], "MATCHING")
        polled = self.game.browse.ask("GET", "/candidate/status", token=self.ann.token)
        self.deploy.held[0].callback(Reply(200, {"host": "h", "port": 9}))
        self.game.browse.flush()
        self.assertEqual(self.successResultOf(polled).json["status"], "IN_PROGRESS")

    @proves("candidate MATCHING -> FAILED: the deploy call fails")
    def test_a_silent_deploy_server_is_a_failure(self) -> None:
        self.deploy.hold = True
        self.game.browse.ask("POST", "/candidate/join", json=CITY, token=self.ann.token)
        self.game.clock.advance(30)
        self.assertEqual(self.status(self.ann).json["status"], "FAILED")


class QueueTests(MatchmakingCase):
    @proves("candidate none -> MATCHING: join", "POST /candidate/join", "limit: hunt group")
    def test_four_players_close_a_hunt_at_once_each_expected_once(self) -> None:
        for player in self.players[:3]:
            self.join(player, **HUNT)
            self.assertEqual(self.status(player).json["status"], "MATCHING")
        self.join(self.players[0], **HUNT)
        self.assertEqual(self.deploy.requests, [])
        self.join(self.players[3], **HUNT)
        [request] = self.deploy.requests
        self.assertEqual((request["GameMode"], request["HuntId"]), ("ISLAND", "Hunt_A"))
        expected = [player.id for player in (*self.players[1:3], self.players[0], self.players[3])]
        self.assertEqual(request["ExpectedPlayers"], expected)
        for player in self.players[:4]:
            self.assertEqual(self.status(player).json["status"], "IN_PROGRESS")

    @proves("candidate none -> MATCHING: join", "limit: hunt group")
    def test_a_queue_launches_twenty_seconds_after_its_last_joiner(self) -> None:
        self.join(self.ann, **HUNT)
        self.game.clock.advance(15)
        self.join(self.bob, **HUNT)
        self.game.clock.advance(20)
        self.assertEqual(self.status(self.ann).json["status"], "MATCHING")
        self.game.clock.advance(0.1)
        self.assertEqual(self.status(self.ann).json["status"], "IN_PROGRESS")
        self.assertEqual(self.deploy.requests[0]["ExpectedPlayers"], [self.ann.id, self.bob.id])

    @proves("candidate none -> MATCHING: join")
    def test_a_new_join_replaces_the_older_waiting_join(self) -> None:
        first = self.join(self.ann, **HUNT).json["candidateId"]
        self.game.clock.advance(15)
        second = self.join(self.ann, **HUNT).json["candidateId"]
        self.assertNotEqual(first, second)
        self.join(self.ann, **(HUNT | {"playerHuntId": "Hunt_B"}))
        self.game.clock.advance(21)
        self.assertEqual(self.status(self.ann).json["huntId"], "Hunt_B")
        [request] = self.deploy.requests
        self.assertEqual((request["HuntId"], request["ExpectedPlayers"]), ("Hunt_B", [self.ann.id]))

    @proves("POST /candidate/join")
    def test_going_to_the_city_leaves_the_queue(self) -> None:
        self.join(self.ann, **HUNT), self.join(self.bob, **HUNT)
        self.join(self.ann, **CITY)
        self.game.clock.advance(21)
        self.status(self.bob)
        self.assertEqual(self.deploy.requests[-1]["ExpectedPlayers"], [self.bob.id])

    def test_a_launch_retry_omits_players_that_have_left(self) -> None:
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
        expected = [request["ExpectedPlayers"] for request in self.deploy.requests]
        self.assertEqual(expected, [[self.ann.id, self.bob.id], [self.bob.id]])

    @proves("POST /candidate/join")
    def test_a_launching_queue_takes_no_more_players(self) -> None:
        self.deploy.hold = True
        self.join(self.ann, **HUNT)
        self.game.clock.advance(21)
        self.game.browse.ask("GET", "/candidate/status", token=self.ann.token)
        self.join(self.bob, **HUNT)
        self.game.clock.advance(5)
        self.deploy.held[0].callback(Reply(200, {"host": "h", "port": 9}))
        self.assertEqual(self.status(self.bob).json["status"], "MATCHING")
        self.assertEqual(self.deploy.requests[0]["ExpectedPlayers"], [self.ann.id])


class CancelTests(MatchmakingCase):
    @proves("DELETE /candidate", "DELETE /candidate/leave", "MATCHMAKING_CANCEL")
    def test_both_cancel_routes_are_404_without_their_switch(self) -> None:
        for path in ("/candidate", "/candidate/leave"):
            for token in (None, self.ann.token):
                page = self.game.browse("DELETE", path, token=token)
                self.assertEqual((page.status, page.body), (404, b""))

    @proves("candidate MATCHING -> none: cancel", "DELETE /candidate/leave")
    def test_cancelling_removes_a_waiting_player_from_the_queue(self) -> None:
        self.start(MATCHMAKING_CANCEL="1")
        for path in ("/candidate", "/candidate/leave"):
            self.join(self.ann, **HUNT)
            page = self.game.browse("DELETE", path, token=self.ann.token)
            self.assertEqual((page.status, page.json), (200, {}))
            self.assertEqual(self.status(self.ann).status, 404)
        self.assertEqual(self.game.browse("DELETE", "/candidate", token=self.ann.token).json, {})
        self.game.clock.advance(30)
        self.assertEqual(self.deploy.requests, [])

    @proves("candidate MATCHING -> none: cancel", "DELETE /candidate", "DELETE /candidate/leave")
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


class EndedSessionTests(MatchmakingCase):
    def test_a_place_in_the_queue_and_on_a_server_ends_with_the_sessions(self) -> None:
        def relogged() -> Page:
            token = self.game.parts.tokens.sign(self.ann.id)
            return self.game.browse("GET", "/candidate/status", token=token)

        for seconds in (0, 60):  # while the player waits, and after the player was sent to a server
            self.join(self.ann, **HUNT)
            self.game.clock.advance(seconds)
            self.assertEqual(relogged().status, 200)
            ending = self.game.parts.sessions.end(self.ann.id)
            self.successResultOf(Deferred.fromCoroutine(ending))
            self.assertEqual(relogged().status, 404)
            self.game.clock.advance(2)
            self.ann = evolve(self.ann, token=self.game.parts.tokens.sign(self.ann.id))


class SmallRouteTests(MatchmakingCase):
    @proves(
        "GET /QoS",
        "POST /candidate/player/alive",
        "POST /candidate/player/register",
        "POST /key/generate",
    )
    def test_the_small_routes_answer_as_the_client_expects(self) -> None:
        ask = self.game.browse
        token = self.ann.token
        self.assertEqual(ask("POST", "/candidate/player/register", json={}, token=token).json, {})
        alive = ask("POST", "/candidate/player/alive", json={"playerIds": ["a", "b"]}, token=token)
        self.assertEqual(alive.json, {"expectedPlayerIds": ["a", "b"]})
        self.game.described.odd = True
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

    @proves("GET /candidate/regions")
    def test_the_region_comes_from_the_settings(self) -> None:
        self.assertEqual(
            self.game.browse("GET", "/candidate/regions", token=self.ann.token).json["payload"][
                "regionUrls"
            ],
            [],
        )
        self.start(QOS_TARGET_URL="http://127.0.0.1:61000/QoS")
        reply = self.game.browse("GET", "/candidate/regions", token=self.ann.token).json
        payload = {
            "maxPingingStepTime": 3,
            "pingCount": 5,
            "pingFrequency": 0.25,
            "regionUrls": ["http://127.0.0.1:61000/QoS"],
        }
        self.assertEqual(reply, {"code": 200, "message": "success", "payload": payload})

    @proves("POST /candidate/player/alive")
    def test_misc_routes_off_hides_alive(self) -> None:
        self.start(MISC_ROUTES="0")
        page = self.game.browse("POST", "/candidate/player/alive", json={}, token=self.ann.token)
        self.assertEqual(page.status, 404)


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
    def test_a_new_hunt_is_refused_and_the_city_is_not(self) -> None:
        self.drain()
        for body in (HUNT, TUTORIAL):
            page = self.join(self.ann, **body)
            self.assertEqual((page.status, page.body), (400, b""))
        self.assertEqual(self.join(self.ann, **CITY).status, 200)
        self.drain(on=False)
        self.assertEqual(self.join(self.ann, **HUNT).status, 200)

    def test_waiting_players_fail_and_no_server_starts(self) -> None:
        for player in (self.ann, self.bob):
            self.join(player, **HUNT)
        self.drain()
        self.game.clock.advance(1)
        for player in (self.ann, self.bob):
            self.assertEqual(self.status(player).json["status"], "FAILED")
        self.game.clock.advance(60)
        self.status(self.ann)
        self.assertEqual(self.deploy.requests, [])

    def test_a_hunt_that_runs_goes_on_and_its_players_find_back(self) -> None:
        self.party(self.ann, self.bob)
        self.join(self.ann, **HUNT)
        self.drain()
        self.assertIn("serverInfo", self.status(self.bob).json)
        self.assertEqual(self.join(self.bob, **HUNT).status, 200)
        self.assertEqual(self.join(self.ann, **{**HUNT, "playerHuntId": "Hunt_B"}).status, 400)
        self.assertIn("serverInfo", self.status(self.ann).json)
        self.assertEqual(len(self.deploy.requests), 1)

    def test_a_refused_join_leaves_the_older_place_alone(self) -> None:
        self.join(self.ann, **HUNT)
        self.game.clock.advance(21)
        self.assertIn("serverInfo", self.status(self.ann).json)
        self.drain()
        self.assertEqual(self.join(self.ann, **{**HUNT, "playerHuntId": "Hunt_B"}).status, 400)
        self.assertIn("serverInfo", self.status(self.ann).json)


FULL = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})


class EndedTests(MatchmakingCase):
    def end_sessions(self, player: Player) -> str:
        """End the player's sessions as a new key does; return a new token."""
        self.successResultOf(Deferred.fromCoroutine(self.game.parts.sessions.end(player.id)))
        self.assertEqual(self.status(player).status, 401)
        return self.game.parts.tokens.sign(player.id)

    def test_a_player_whose_sessions_ended_is_not_launched_with_others(self) -> None:
        ann, bob, *others = self.players
        for player in (ann, bob):
            self.assertEqual(self.join(player, **HUNT).status, 200)
        fresh = self.end_sessions(ann)
        self.assertEqual(
            self.game.browse("GET", "/candidate/status", token=fresh).status,
            self.status(others[0]).status,  # the status of a player who never asked
        )
        for player in others[:2]:
            self.join(player, **HUNT)
        # three players wait; a fourth would start the launch immediately
        self.assertEqual(self.deploy.requests, [])
        self.join(others[2], **HUNT)
        self.status(bob)
        [request] = self.deploy.requests
        self.assertEqual(request["ExpectedPlayers"], [player.id for player in (bob, *others[:3])])

    def test_a_player_whose_sessions_ended_is_not_expected_at_the_launch(self) -> None:
        self.deploy.answer = FULL
        for player in (self.ann, self.bob):
            self.join(player, **HUNT)
        self.game.clock.advance(21)
        self.status(self.ann)
        self.end_sessions(self.ann)
        self.game.clock.advance(11)
        self.status(self.bob)
        self.assertEqual(self.deploy.requests[-1]["ExpectedPlayers"], [self.bob.id])


def entry(party: str | None = None) -> MatchEntry:
    match = Match("m", "Hunt", "7", "", ["ann", "bob"], True, 0.0, party_id=party)
    match.server = Server("192.0.2.7", 7777)
    return MatchEntry("c", "Hunt", "7", match)


class ReplyTests(SynchronousTestCase):
    def test_a_valid_request_becomes_a_launch_request(self) -> None:
        request = wire.CandidateRequest(ISLAND, "", "7").checked()
        self.assertEqual((request.game_mode, request.hunt_id), (ISLAND, "7"))

    def test_a_join_is_matching_and_has_no_server(self) -> None:
        self.assertEqual(
            wire.show_joined(entry()),
            {
                "candidateId": "c",
                "gameMode": "Hunt",
                "huntId": "7",
                "status": "MATCHING",
                "statusReason": None,
            },
        )

    def test_a_single_player_sees_only_itself_and_the_island(self) -> None:
        reply = wire.show_standing("ann", entry(), MatchState.MATCHING, "123")
        self.assertEqual(
            reply,
            {
                "candidateId": "c",
                "candidateStatusPeriodMillis": 10_000,
                "gameMode": "ISLAND",
                "huntId": "7",
                "playerStates": {"ann": {}},
                "status": "MATCHING",
                "statusDuration": 0.0,
                "statusReason": None,
            },
        )

    def test_a_party_member_sees_all_members_and_the_server(self) -> None:
        reply = wire.show_standing("ann", entry("p"), MatchState.IN_PROGRESS, "123")
        self.assertEqual(
            (reply["gameMode"], reply["playerStates"]), ("Hunt", {"ann": {}, "bob": {}})
        )
        self.assertEqual(
            reply["serverInfo"],
            {
                "buildId": "123_1.4.4_shipping",
                "gameSessionId": "c",
                "host": "192.0.2.7",
                "port": 7777,
            },
        )
        self.assertEqual(
            list(reply)[-4:], ["serverInfo", "status", "statusDuration", "statusReason"]
        )
