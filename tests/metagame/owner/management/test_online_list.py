"""The owner's list of online players. Spec: 2 §2 Online entry."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.waiting import at_once
from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import check
from svcserver.kernel.times import iso
from svcserver.metagame.owner.management.acts import OnlinePlayers
from svcserver.metagame.owner.management.routes import OnlineListRoutes
from svcserver.metagame.play.matches import Server
from svcserver.web.front import FrontDoor
from tests.metagame.play.matchmaking.live import BoardMatchmaker
from tests.support.browser import Browser
from tests.support.game import Game, Player
from tests.support.proves import proves

PATH = "/svc/api/PrivateOnlineStats"
ISLAND_MAP = "/Game/Maps/islands/1705/cora_jamima"


class OnlineListTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.admin = self.game.player("Olga", admin=True)
        self.ann = self.game.player("Ann_1")

    def ask(self) -> Any:
        page = self.game.browse("GET", PATH, key=self.admin.key)
        self.assertEqual(page.status, 200)
        return page.json

    def beat(self, player: Player, map_path: str) -> None:
        sent = {"map": map_path, "state": "island"}
        self.game.browse("POST", "/heartbeat", token=player.token, json=sent)

    @proves("GET /svc/api/PrivateOnlineStats")
    def test_the_list_is_empty_when_nobody_is_online(self) -> None:
        self.assertEqual(self.ask(), [])

    @proves("GET /svc/api/PrivateOnlineStats")
    def test_a_player_outside_a_hunt_has_a_map_and_two_nulls(self) -> None:
        self.beat(self.ann, "/Game/Maps/city_01_persistent")
        entry = {
            "UserId": self.ann.id,
            "Map": "/Game/Maps/city_01_persistent",
            "HuntId": None,
            "EnteredHuntAt": None,
        }
        self.assertEqual(self.ask(), [entry])
        self.game.clock.advance(90)
        self.assertEqual(self.ask(), [])

    @proves("GET /svc/api/PrivateOnlineStats")
    def test_only_an_admin_without_a_proxy_reads_the_online_list(self) -> None:
        browse = self.game.browse
        self.assertEqual(browse("GET", PATH).status, 401)
        self.assertEqual(browse("GET", PATH, key=self.ann.key).status, 403)
        through = browse("GET", PATH, key=self.admin.key, headers={"Via": "1.1 x"})
        self.assertEqual((through.status, through.body), (403, b""))


class HuntTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = game = Game(self)
        self.admin = game.player("Olga", admin=True)
        self.ann = AccountId(game.player("Ann_1").id)
        self.matches = BoardMatchmaker()
        self.matches.live.now = game.clock.seconds()
        self.wall_clock = game.clock.seconds
        feature = OnlineListRoutes(
            OnlinePlayers(game.settings, game.parts.online, self.matches.matches)
        )
        self.browse = Browser(self, FrontDoor(game.door.gate, game.settings).mount(feature))

    def sent_to(self, hunt: str) -> None:
        """Let Ann join a hunt and send her to its game server."""
        request = check("ISLAND", "", hunt)
        entry = self.matches.join(self.ann, request, None, self.wall_clock())
        entry.match.server = Server("127.0.0.1", 8771)
        self.matches.sent(self.ann, self.wall_clock())

    def entry(self, map_path: str) -> Any:
        at_once(self.game.parts.online.mark_seen(self.ann, map_path, "island"))
        [entry] = self.browse("GET", PATH, key=self.admin.key).json
        return entry["HuntId"], entry["EnteredHuntAt"]

    @proves("GET /svc/api/PrivateOnlineStats")
    def test_a_hunter_has_the_hunt_and_when_it_was_entered(self) -> None:
        self.sent_to("CR19_MatchmakerHunt_1")
        entered = iso(self.wall_clock())
        self.game.clock.advance(60)
        self.assertEqual(self.entry(ISLAND_MAP), ("CR19_MatchmakerHunt_1", entered))

    @proves("GET /svc/api/PrivateOnlineStats")
    def test_a_player_back_in_the_city_is_in_no_hunt(self) -> None:
        self.sent_to("CR19_MatchmakerHunt_1")
        self.assertEqual(self.entry("/Game/Maps/city_01_persistent"), (None, None))

    @proves("GET /svc/api/PrivateOnlineStats")
    def test_a_hunt_nobody_was_sent_to_is_unknown(self) -> None:
        self.assertEqual(self.entry(ISLAND_MAP), (None, None))

    @proves("GET /svc/api/PrivateOnlineStats")
    def test_a_player_sent_back_to_the_city_is_in_no_hunt(self) -> None:
        self.sent_to("ShatteredIsles_ReturnToCity")
        self.assertEqual(self.entry(ISLAND_MAP), (None, None))
