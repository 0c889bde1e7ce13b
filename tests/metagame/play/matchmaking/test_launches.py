"""One live launch per player and per party at a time. Spec: 1 §4 Matchmaking."""

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionLost

from tests.metagame.play.matchmaking.base import CITY, HUNT, Deploy, MatchmakingCase, Reply
from tests.support.game import Game, Player

TUTORIAL = {
    "gameMode": "ISLAND",
    "gameArgs": "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=",
    "playerHuntId": "",
}
HUNT_B = HUNT | {"playerHuntId": "Hunt_B"}
BUSY = Reply(503, {"error": "capacity_unavailable", "reason": "ports"})


class Fleet(Deploy):
    """A fake deploy server with a port for each launch; the last port is the city's."""

    def __init__(self) -> None:
        super().__init__()
        self.running: set[int] = set()
        self.next = 8775
        self.says = True
        self.instead: Reply | None = None  # of the list

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        if url.endswith("/gameservers"):
            return self._list()
        if self.hold or self.answer.code != 200:
            return super().request(method, url, **sent)
        self.note(sent["json"], sent["headers"])
        body = sent["json"]
        port = 8777
        if "ExpectedPlayers" in body or body["GameArgs"]:
            port, self.next = self.next, self.next - 1
            self.running.add(port)
        return succeed(Reply(200, {"host": "203.0.113.9", "port": port}))

    def _list(self) -> Deferred[Any]:
        if not self.says:
            return fail(ConnectionLost())
        if self.instead is not None:
            return succeed(self.instead)
        record = {"id": "x", "map": "/Game/M", "expectedPlayers": []}
        return succeed(Reply(200, {"servers": [record | {"port": port} for port in self.running]}))


class LaunchCase(MatchmakingCase):
    def start(self, **environ: str) -> None:
        self.deploy = self.fleet = Fleet()
        self.game = Game(self, http=self.fleet, **environ)
        self.players = [self.game.player(f"player_{n}") for n in range(6)]
        self.ann, self.bob = self.players[:2]

    def sent_to(self, player: Player) -> int | str:
        """Return the port in the reply to the player's poll, or the state if there is no port."""
        reply = self.status(player).json
        port: int | str = reply["serverInfo"]["port"] if "serverInfo" in reply else reply["status"]
        return port

    def hunt(self, player: Player, body: dict[str, str] = HUNT) -> int | str:
        """Start a hunt alone: join, wait until the queue closes, and poll."""
        self.join(player, **body)
        self.game.clock.advance(21)
        return self.sent_to(player)


class AloneTests(LaunchCase):
    def test_six_requests_of_one_player_start_one_game_server(self) -> None:
        candidates = {self.join(self.ann, **TUTORIAL).json["candidateId"] for _ in range(6)}
        self.assertEqual((len(candidates), self.fleet.running), (1, {8775}))
        self.assertEqual(self.sent_to(self.ann), 8775)

    def test_a_player_sent_to_a_server_is_sent_again_after_20_seconds(self) -> None:
        first = self.join(self.ann, **TUTORIAL).json["candidateId"]
        self.sent_to(self.ann)
        again = self.join(self.ann, **(TUTORIAL | {"gameArgs": TUTORIAL["gameArgs"] + "?x=y"}))
        self.assertEqual((again.status, again.json["status"]), (200, "MATCHING"))
        self.assertEqual(again.json["candidateId"], first)
        self.assertEqual(self.sent_to(self.ann), "MATCHING")
        self.game.clock.advance(20)
        self.assertEqual(self.sent_to(self.ann), 8775)
        self.assertEqual(len(self.fleet.requests), 1)

    def test_asking_again_while_the_server_starts_starts_no_other(self) -> None:
        self.fleet.hold = True
        for _ in range(6):
            self.game.browse.ask("POST", "/candidate/join", json=TUTORIAL, token=self.ann.token)
            self.game.clock.advance(3)
        self.assertEqual(len(self.fleet.held), 1)
        self.fleet.held[0].callback(Reply(200, {"host": "203.0.113.9", "port": 8775}))
        self.assertEqual(self.sent_to(self.ann), 8775)

    def test_a_request_for_a_second_hunt_leads_to_the_first_hunt(self) -> None:
        self.assertEqual(self.hunt(self.ann), 8775)
        self.assertEqual(self.hunt(self.ann, HUNT_B), "MATCHING")
        self.game.clock.advance(20)
        self.assertEqual(self.sent_to(self.ann), 8775)
        self.assertEqual(len(self.fleet.requests), 1)

    def test_an_ended_server_allows_the_next_launch_at_once(self) -> None:
        for port in (8775, 8774, 8773):
            self.join(self.ann, **TUTORIAL)
            self.assertEqual(self.sent_to(self.ann), port)
            self.fleet.running.clear()

    def test_a_failed_launch_allows_the_next_launch_at_once(self) -> None:
        self.fleet.answer = Reply(500, {})
        self.join(self.ann, **TUTORIAL)
        self.assertEqual(self.sent_to(self.ann), "FAILED")
        self.fleet.answer = Reply(200, {})
        self.join(self.ann, **TUTORIAL)
        self.assertEqual(self.sent_to(self.ann), 8775)

    def test_a_launch_refused_for_capacity_does_not_delay_the_next(self) -> None:
        self.fleet.answer = BUSY
        self.join(self.ann, **TUTORIAL)
        self.fleet.answer = Reply(200, {})
        self.join(self.ann, **TUTORIAL)
        self.assertEqual(self.sent_to(self.ann), 8775)

    def test_after_the_city_a_hunt_waits_for_the_last_hunt_to_end(self) -> None:
        self.hunt(self.ann)
        self.join(self.ann, **CITY)
        self.assertEqual(self.sent_to(self.ann), 8777)
        self.assertEqual(self.hunt(self.ann, HUNT_B), "MATCHING")
        self.fleet.running.discard(8775)
        self.game.clock.advance(1)
        self.assertEqual(self.sent_to(self.ann), 8774)
        self.assertEqual(self.fleet.requests[-1]["HuntId"], "Hunt_B")

    def test_a_new_hunt_waits_however_long_the_last_hunt_runs(self) -> None:
        self.hunt(self.ann)
        self.join(self.ann, **CITY)
        for _ in range(10):
            self.assertEqual(self.hunt(self.ann, HUNT_B), "MATCHING")
            self.game.clock.advance(120)
            self.assertEqual(self.sent_to(self.ann), "MATCHING")
        self.assertEqual(self.fleet.running, {8775})

    def test_a_silent_deploy_server_has_ended_nothing(self) -> None:
        self.hunt(self.ann)
        self.join(self.ann, **CITY)
        self.fleet.says = False
        self.fleet.running.clear()
        self.hunt(self.ann, HUNT_B)
        self.game.clock.advance(60)
        self.assertEqual(self.sent_to(self.ann), "MATCHING")
        self.fleet.says = True
        self.game.clock.advance(1)
        self.assertEqual(self.sent_to(self.ann), 8774)

    def test_a_deploy_server_without_a_list_delays_no_launch(self) -> None:
        lists_none = Reply(404, b"<pre>Cannot GET</pre>"), Reply(501, b""), Reply(200, {"port": 1})
        for player, instead in zip(self.players, lists_none, strict=False):
            self.fleet.instead = instead
            self.hunt(player)
            port = self.fleet.next
            self.join(player, **CITY)
            self.assertEqual(self.hunt(player, HUNT_B), port)

    def test_an_error_of_the_deploy_server_ends_no_launch(self) -> None:
        for player, status in zip(self.players, (500, 503), strict=False):
            self.fleet.instead = Reply(status, b"")
            self.hunt(player)
            self.join(player, **CITY)
            self.assertEqual(self.hunt(player, HUNT_B), "MATCHING")

    def test_a_city_and_another_player_are_never_in_the_way(self) -> None:
        self.join(self.ann, **TUTORIAL)
        self.join(self.bob, **TUTORIAL)
        for _ in range(3):
            self.join(self.ann, **CITY)
            self.assertEqual(self.sent_to(self.ann), 8777)
        self.assertEqual(self.fleet.running, {8775, 8774})

    def test_a_queue_starts_if_any_of_its_players_has_no_game_server(self) -> None:
        self.hunt(self.ann)
        self.join(self.bob, **HUNT_B)
        self.assertEqual(self.hunt(self.ann, HUNT_B), 8774)
        self.assertEqual(self.fleet.requests[-1]["ExpectedPlayers"], [self.bob.id, self.ann.id])

    def test_a_launch_cooldown_of_0_allows_any_number_of_servers(self) -> None:
        self.start(MATCHMAKING_LAUNCH_COOLDOWN_S="0")
        for _ in range(3):
            self.join(self.ann, **TUTORIAL)
        self.assertEqual(len(self.fleet.running), 3)


class TogetherTests(LaunchCase):
    """A hunt with two players, one of whom leaves."""

    def setUp(self) -> None:
        super().setUp()
        self.join(self.bob, **HUNT)
        self.assertEqual(self.hunt(self.ann), 8775)
        self.assertEqual(self.sent_to(self.bob), 8775)

    def city(self, player: Player) -> None:
        self.join(player, **CITY)
        self.assertEqual(self.sent_to(player), 8777)

    def again(self, player: Player, after: float = 60) -> int | str:
        self.hunt(player, HUNT_B)
        self.game.clock.advance(after)
        return self.sent_to(player)

    def test_leaving_a_hunt_does_not_skip_the_launch_cooldown(self) -> None:
        self.city(self.ann)
        self.assertEqual(self.hunt(self.ann, HUNT_B), "MATCHING")
        self.game.clock.advance(39)
        self.assertEqual(self.sent_to(self.ann), 8774)

    def test_the_last_player_to_leave_a_hunt_waits_until_it_ends(self) -> None:
        self.city(self.ann)
        self.assertEqual(self.again(self.ann), 8774)
        self.city(self.bob)
        self.assertEqual(self.again(self.bob), "MATCHING")
        self.assertEqual(self.fleet.running, {8775, 8774})
        self.fleet.running.discard(8775)
        self.game.clock.advance(1)
        self.assertEqual(self.sent_to(self.bob), 8773)

    def test_a_former_hunter_gets_a_new_server_after_two_minutes(self) -> None:
        self.city(self.ann), self.city(self.bob)
        self.assertEqual(self.again(self.bob, 98.9), "MATCHING")
        self.game.clock.advance(0.1)
        # the deploy server was asked a tenth of a second ago
        self.assertEqual(self.sent_to(self.bob), "MATCHING")
        self.game.clock.advance(1)
        self.assertEqual(self.sent_to(self.bob), 8774)
        self.city(self.bob)
        # a player with two launches starts no third launch
        self.assertEqual(self.again(self.bob, 200), "MATCHING")

    def test_a_launch_joined_in_another_players_queue_does_not_count(self) -> None:
        self.city(self.ann), self.city(self.bob)
        cat = self.players[2]
        self.join(cat, **HUNT_B)
        self.assertEqual(self.again(self.bob, 0), 8774)
        self.fleet.running.discard(8775)
        self.city(self.bob)
        self.assertEqual(self.again(self.bob), 8773)  # the second launch is cat's


class PartyTests(LaunchCase):
    def setUp(self) -> None:
        super().setUp()
        self.party(self.ann, self.bob)

    def test_a_leaders_request_for_another_hunt_joins_the_partys_hunt(self) -> None:
        first = self.join(self.ann, **HUNT).json["candidateId"]
        again = self.join(self.ann, **HUNT_B).json
        self.assertEqual((again["candidateId"], again["huntId"]), (first, "Hunt_A"))
        for player in (self.ann, self.bob):
            self.assertEqual(self.sent_to(player), 8775)
        shown = self.game.browse("POST", "/party", json={}, token=self.bob.token).json
        self.assertEqual((shown["candidateId"], shown["playerHuntId"]), (first, "Hunt_A"))

    def test_back_from_the_city_the_party_waits_together(self) -> None:
        self.join(self.ann, **HUNT)
        for player in (self.ann, self.bob):
            self.sent_to(player)
        self.join(self.ann, **CITY)
        self.join(self.ann, **HUNT_B)
        self.assertEqual(
            [self.sent_to(player) for player in (self.ann, self.bob)], ["MATCHING"] * 2
        )
        self.fleet.running.clear()
        self.game.clock.advance(1)
        self.assertEqual([self.sent_to(player) for player in (self.ann, self.bob)], [8774] * 2)
        self.assertEqual(self.fleet.requests[-1]["ExpectedPlayers"], [self.ann.id, self.bob.id])

    def test_a_party_gets_a_second_hunt_after_the_cooldown_no_third(self) -> None:
        self.join(self.ann, **HUNT)
        self.sent_to(self.ann), self.sent_to(self.bob)
        self.game.clock.advance(60)
        for port in (8774, "MATCHING"):
            self.join(self.ann, **CITY)
            self.join(self.ann, **HUNT_B)
            self.game.clock.advance(60)
            self.assertEqual([self.sent_to(player) for player in (self.ann, self.bob)], [port] * 2)
        self.assertEqual(self.fleet.running, {8775, 8774})

    def test_leaving_the_party_frees_no_launch(self) -> None:
        self.join(self.ann, **HUNT)
        for player in (self.ann, self.bob):
            self.game.browse("DELETE", "/party/member", token=player.token)
            self.join(player, **TUTORIAL)
            self.assertEqual(self.sent_to(player), 8775)
        self.assertEqual(len(self.fleet.requests), 1)

    def test_a_member_with_a_hunt_of_their_own_does_not_stop_the_party(self) -> None:
        self.join(self.bob, **TUTORIAL)
        self.join(self.ann, **HUNT)
        self.assertEqual([self.sent_to(player) for player in (self.ann, self.bob)], [8774] * 2)
