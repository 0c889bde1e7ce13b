"""The pages about game servers: the fleet, a server's output, and past launches."""

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.live import FLEET_S
from svcserver.metagame.owner.gameservers import MOST_NAMES
from tests.metagame.play.matchmaking.base import Reply
from tests.support.game import Game
from tests.support.proves import proves

CITY = {
    "id": "c1",
    "kind": "city",
    "map": "/Game/Maps/city/city_01",
    "port": 8777,
    "expectedPlayers": [],
    "startedAt": "2026-09-21T14:13:20.000Z",
}
HUNT = {**CITY, "id": "h1", "kind": "hunt", "port": 8775, "map": "/Game/Maps/islands/cora_jamima"}
ENDED = {
    "id": "h0",
    "kind": "hunt",
    "map": "/Game/Maps/islands/cora_jamima",
    "port": 8774,
    "behemoth": None,
    "huntId": None,
    "matchmakerHuntId": None,
    "startedAt": "2026-09-21T14:13:20.000Z",
    "endedAt": "2026-09-21T14:33:20.000Z",
    "how": "code 3",
    "reason": "",
    "hasOutput": True,
}


class FakeDeploy:
    """A fake of treq with replies of the deploy server for some paths; other paths are refused."""

    def __init__(self) -> None:
        usage = [{"id": "c1", "memoryBytes": 7_000_000, "cpuPercent": 12.5}]
        self.replies: dict[str, Reply] = {
            "/gameservers": Reply(200, {"servers": [CITY, HUNT]}),
            "/gameservers/usage": Reply(
                200, {"servers": [CITY, HUNT], "usage": usage, "launches": 3}
            ),
            "/gameservers/history": Reply(200, {"launches": [ENDED]}),
        }
        self.queries: list[str] = []
        self.paths: list[str] = []

    def request(self, method: str, url: str, **_: Any) -> Deferred[Any]:
        path, _, query = url.removeprefix("http://127.0.0.1:61001").partition("?")
        self.queries.append(query)
        self.paths.append(path)
        reply = self.replies.get(path)
        return fail(ConnectionRefusedError()) if reply is None else succeed(reply)


class GameServerPagesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.deploy = FakeDeploy()
        self.game = Game(self, http=self.deploy)
        self.olga = self.game.player("Olga", admin=True)
        desk = self.game.parts.desk
        self.pages = desk.game_servers(desk.reports())

    def read(self, look: Any) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(look()))

    def test_the_fleet_has_players_memory_and_cpu_time_by_port(self) -> None:
        for number in range(MOST_NAMES + 2):
            player = self.game.player(f"Ann_{number:02}")
            beat = {"map": "city_01_persistent", "state": "island"}
            self.game.browse("POST", "/heartbeat", json=beat, token=player.token)
        update = self.read(self.pages.fleet)
        hunt, city = update["servers"]
        self.assertEqual((update["launches"], hunt["kind"], hunt["players"]), (3, "hunt", 0))
        self.assertEqual((hunt["memoryBytes"], hunt["cpuPercent"]), (None, None))
        self.assertEqual((city["memoryBytes"], city["cpuPercent"]), (7_000_000, 12.5))
        self.assertEqual((city["players"], len(city["names"])), (MOST_NAMES + 2, MOST_NAMES))
        self.deploy.replies.clear()
        self.assertEqual(self.read(self.pages.fleet), {"servers": None, "launches": 0})

    def test_open_pages_share_one_reading_of_the_deploy_server(self) -> None:
        desk = self.game.parts.desk
        acts = DashboardActs(self.game.parts.ledger, set)
        live = desk.pages(acts, desk.overview(desk.reports()), self.pages)
        looks = [live.reader_for_page("servers") for _ in range(3)]
        for _ in range(2):
            self.game.clock.advance(FLEET_S)
            self.deploy.paths.clear()
            for look in looks:
                self.read(look)
            self.assertEqual(self.deploy.paths.count("/gameservers/usage"), 1)
        self.game.clock.advance(FLEET_S)
        self.assertEqual(self.deploy.paths.count("/gameservers/usage"), 1)  # nobody looks

    def test_the_fleet_is_shown_while_live_state_cannot_be_read(self) -> None:
        async def away() -> Any:
            raise Unavailable("the live state cannot be read")

        update = self.read(evolve(self.pages, status=away).fleet)
        self.assertEqual([server["players"] for server in update["servers"]], [0, 0])

    def output(self, *lines: str, cursor: str, **more: bool) -> Reply:
        part = {"lines": [*lines], "cursor": cursor, "fresh": False, "missed": False}
        return Reply(200, {**part, **more})

    def test_the_console_sends_the_last_lines_of_an_ended_server_once(self) -> None:
        look = self.pages.console("c1", "s:4")
        self.deploy.replies["/gameservers/output"] = self.output("crash", cursor="s:9", ended=True)
        update = self.read(look)
        self.assertEqual((update["lines"], update["ended"]), (["crash"], True))
        self.assertEqual(self.read(look), None)

    def test_the_console_continues_after_the_last_line_and_an_absence(self) -> None:
        look = self.pages.console("c 1", "s:4")
        self.deploy.replies["/gameservers/output"] = self.output("a", cursor="s:6")
        self.assertEqual(self.read(look)["lines"], ["a"])
        self.assertEqual(self.deploy.queries[-1], "id=c%201&after=s%3A4")
        self.deploy.replies["/gameservers/output"] = self.output(cursor="s:6")
        self.assertEqual(self.read(look), None)
        self.assertEqual(self.deploy.queries[-1], "id=c%201&after=s%3A6")
        back = self.deploy.replies.pop("/gameservers/output")
        self.assertEqual(self.read(look), {"away": True})
        self.deploy.replies["/gameservers/output"] = back
        self.assertEqual(self.read(look)["lines"], [])
        self.deploy.replies["/gameservers/output"] = Reply(404, {"message": "no such game server"})
        self.assertEqual([self.read(look), self.read(look)], [{"over": True}, None])
        for odd in ([], {"lines": "x"}, {"lines": [], "cursor": 1, "fresh": True, "missed": 0}):
            self.deploy.replies["/gameservers/output"] = Reply(200, odd)
            self.assertEqual(self.read(self.pages.console("c1")), {"away": True})

    def helper(self) -> Any:
        helper = self.game.player("Hel_1")
        self.game.ledger.run(lambda tx: SqlAccounts(tx).set_role(helper.id, Role.HELPER))
        return helper

    def ask(self, path: str, key: str, **more: Any) -> Any:
        return self.game.browse("GET", f"/svc/api/{path}", key=key, **more)

    @proves("GET DashboardLaunches")
    def test_past_launches_have_titles_and_exit_codes(self) -> None:
        helper = self.helper()
        page = self.ask("DashboardLaunches", helper.key)
        [launch] = page.json["launches"]
        self.assertEqual((launch["title"], launch["how"]), ("Hunt: cora_jamima", "code 3"))
        self.assertTrue(launch["hasOutput"])
        self.deploy.replies.clear()
        page = self.ask("DashboardLaunches", self.olga.key)
        self.assertEqual((page.status, page.json["error"]), (409, "no_deploy"))

    def test_only_an_owner_reads_the_console(self) -> None:
        helper = self.helper()
        headers = {"Accept": "text/event-stream"}
        path = "DashboardEvents?page=console&Server=c1"
        self.assertEqual(self.ask(path, helper.key, headers=headers).status, 403)
