"""Game servers with live players are reported to the deploy server."""

import json
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.management.acts import EVERY_S, SeenPlayers, seen_players_watch
from svcserver.metagame.owner.management.instances import DeployedInstances
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.presence.feature import Online
from tests.metagame.owner.management.test_instances import ANN, BOB, CLEO, Reply, record
from tests.metagame.play.matchmaking.live import BoardMatchmaker
from tests.support.live import TestBoard
from tests.support.proves import proves

CITY = "/Game/Maps/city/river_02_persistent"


class Deploy:
    """A fake of treq for a deploy server that runs a city and a hunt."""

    def __init__(self) -> None:
        self.list_requests = 0
        self.reports: list[list[str]] = []
        self.away = False

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        if self.away:
            return fail(ConnectionRefusedError())
        if method == "POST":
            assert url == "http://127.0.0.1:61001/gameservers/heard"
            self.reports.append(sent["json"]["Ids"])
            return succeed(Reply(200, b'{"known": 1}'))
        self.list_requests += 1
        servers = [
            record(1, "city", map=CITY),
            record(2, "hunt", expectedPlayers=[BOB]),
            record(3, "dojo"),
        ]
        return succeed(Reply(200, json.dumps({"servers": servers}).encode()))


class HeardTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.deploy, board = Clock(), Deploy(), TestBoard()
        self.board, self.online = board, Online(board.board)
        client = DeployClient(self.deploy, self.clock, "127.0.0.1:61001", 30.0)
        placed = DeployedInstances(client, BoardMatchmaker().matches, Titles.load(), "The City")
        seen_players = SeenPlayers(self.online, placed, CITY, lambda: board.now)
        self.watch = seen_players_watch(seen_players, self.clock)
        self.watch.startService()
        self.addCleanup(self.watch.stopService)

    def beat(self, player: Any, map_path: str) -> None:
        self.successResultOf(self.online.mark_seen(player, map_path, ""))

    def reports(self) -> list[list[str]]:
        self.board.now += EVERY_S
        self.clock.advance(EVERY_S)
        reported, self.deploy.reports = self.deploy.reports, []
        return reported

    @proves("deploy: a game server whose players are heard is not frozen")
    def test_a_heartbeat_reports_the_players_game_server_once(self) -> None:
        self.beat(ANN, CITY)
        self.beat(BOB, "/Game/Maps/islands/1705/cora_jamima")
        self.beat(CLEO, "/Game/Maps/LoginMenu")
        self.assertEqual(self.reports(), [["id-1", "id-2"]])
        self.assertEqual(self.reports(), [])  # players without a new heartbeat do not count
        self.beat(BOB, "/Game/Maps/islands/1705/cora_jamima")
        self.assertEqual(self.reports(), [["id-2"]])

    def test_an_empty_host_or_silent_deploy_server_reports_nothing(self) -> None:
        self.reports()
        self.assertEqual(self.deploy.list_requests, 0)
        self.deploy.away = True
        self.beat(ANN, CITY)
        self.assertEqual(self.reports(), [])
        self.deploy.away = False
        self.beat(ANN, CITY)
        self.assertEqual(self.reports(), [["id-1"]])
