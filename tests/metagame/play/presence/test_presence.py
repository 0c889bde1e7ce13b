"""Heartbeats and presence. Spec: 1 §4 heartbeat; 2 §2 where, §4 PublicOnlineStats."""

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.waiting import at_once
from svcserver.kernel.signals import PlayerActive
from svcserver.metagame.play.presence import feature as presence
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.play.presence.rules import Place, place
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.live import TestBoard
from tests.support.proves import proves

CITY = "/Game/Maps/city/river_02_persistent"


class HeartbeatTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")

    def online(self) -> int:
        page = self.game.browse("GET", "/svc/api/PublicOnlineStats", key=self.ann.key)
        return int(page.json["NumActivePlayers"])

    @proves(
        "POST /heartbeat",
        "limit: heartbeat period; online window",
        "GET /svc/api/PublicOnlineStats",
    )
    def test_a_beat_keeps_the_player_online_for_ninety_seconds(self) -> None:
        page = self.game.browse(
            "POST", "/heartbeat", token=self.ann.token, json={"map": "M", "state": "city"}
        )
        self.assertEqual((page.status, page.body), (200, b"20000"))
        self.assertTrue(page.headers["content-type"].startswith("text/plain"))
        self.game.clock.advance(89)
        self.assertEqual(self.online(), 1)
        self.game.clock.advance(1)
        self.assertEqual(self.online(), 0)

    def test_news_of_a_heartbeat_reaches_the_other_features(self) -> None:
        news: list[PlayerActive] = []
        self.game.parts.news.active.connect(news.append)
        self.game.browse(
            "POST", "/heartbeat", token=self.ann.token, json={"map": "M", "state": "city"}
        )
        self.assertEqual(news, [PlayerActive(self.ann.id, "M", "city")])

    def test_an_odd_or_missing_body_still_counts(self) -> None:
        news: list[PlayerActive] = []
        self.game.parts.news.active.connect(news.append)
        self.game.described.odd = True
        for sent in (
            {},
            {"json": {}},
            {"json": []},
            {"json": {"map": 7, "state": None}},
            {"json": {"map": "x" * 9999}},
        ):
            self.assertEqual(
                self.game.browse("POST", "/heartbeat", token=self.ann.token, **sent).body, b"20000"
            )
        self.assertEqual(self.online(), 1)
        nowhere = PlayerActive(self.ann.id, "", "")
        self.assertEqual(news[:4], [nowhere] * 4)

    def test_a_heartbeat_of_unparseable_json_is_400_and_not_counted(self) -> None:
        page = self.game.browse("POST", "/heartbeat", token=self.ann.token, data=b"{")
        self.assertEqual(page.status, 400)
        self.assertEqual(self.online(), 0)

    @proves("POST /heartbeat", "missing or invalid player credential: 401")
    def test_no_or_a_bogus_token_is_401(self) -> None:
        for token in (None, "x.y.z"):
            self.assertEqual(
                self.game.browse("POST", "/heartbeat", token=token, json={}).status, 401
            )

    @proves("POST /heartbeat")
    def test_a_game_servers_own_beat_records_nothing(self) -> None:
        page = self.game.browse(
            "POST", "/heartbeat", game_server=GAME_SERVER_KEY, json={"map": "M"}
        )
        self.assertEqual((page.status, page.body), (200, b"20000"))
        self.assertEqual(self.online(), 0)

    @proves("label: account key")
    def test_the_online_count_without_an_account_key_is_401(self) -> None:
        self.assertEqual(self.game.browse("GET", "/svc/api/PublicOnlineStats").status, 401)


class OnlineTests(SynchronousTestCase):
    def test_the_online_list_drops_the_oldest_player_at_its_limit(self) -> None:
        self.patch(presence, "BEATS", evolve(presence.BEATS, most=50))
        online = Online(TestBoard().board)
        for n in range(55):
            at_once(online.mark_seen(str(n), "", ""))
        self.assertEqual(at_once(online.count()), 50)
        self.assertNotIn("0", [beat.account_id for beat in at_once(online.all())])

    @proves("limit: heartbeat period; online window")
    @given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 50))))
    def test_players_seen_within_ninety_seconds_are_online(
        self, beats: list[tuple[str, float]]
    ) -> None:
        live, last = TestBoard(), {}
        online = Online(live.board)
        for who, later in beats:
            live.now += later
            at_once(online.mark_seen(who, "", ""))
            last[who] = live.now
        expected = {who for who, at in last.items() if at + 90 > live.now}
        self.assertEqual({beat.account_id for beat in at_once(online.all())}, expected)
        self.assertEqual(at_once(online.count()), len(expected))


class PlaceTests(SynchronousTestCase):
    @proves("where is derived from the heartbeat's map")
    def test_a_players_place_is_read_from_the_map_then_from_the_state(self) -> None:
        for map_path, state, expected in (
            ("/Game/Maps/Map_LoginMenu", "city", "menu"),
            ("Map_LoginMenu", "", "menu"),
            (CITY, "", "city"),
            ("river_02_persistent?Name=x", "menu", "city"),
            ("other_11_persistent", "", "city"),
            ("/Game/Maps/islands/dojo/training_dojo_persistent", "", "dojo"),
            ("/Game/Maps/islands/1705/dia_moss_triforce", "", "tutorial"),
            ("/Game/Maps/islands/1705/dia_moss_triforce_2", "", "hunt"),
            ("/Game/Maps/arena/pit/", "", "hunt"),
            ("/Game/Maps/city/river_02_persistent/", "", "city"),
            ("/Game/Maps/city/river_02_persistentX", "", "hunt"),
            ("", "menu", "menu"),
            ("", "lobby", "menu"),
            ("", "city", "city"),
            ("", "island", "hunt"),
            ("", "", "unknown"),
            ("  ", "odd", "unknown"),
        ):
            self.assertEqual(place(map_path, state, CITY).value, expected, (map_path, state))

    @given(st.text(), st.text(), st.text())
    def test_any_map_and_state_give_a_place(self, map_path: str, state: str, city: str) -> None:
        self.assertIsInstance(place(map_path, state, city), Place)
