"""The public server status. Spec: 2 §2 Server status reply shape, §4 Server status rules."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.management.acts import StatusReports
from svcserver.metagame.owner.management.routes import ServerStatusRoutes
from svcserver.metagame.owner.management.rules import Placed, RunningGameServer
from tests.support.game import Game
from tests.support.proves import proves

PATH = "/svc/api/ServerStatus"
KEYS = [
    "name",
    "online",
    "version",
    "commit",
    "sourceUrl",
    "registration",
    "playersOnline",
    "players",
    "instances",
    "contentPort",
    "uptimeSeconds",
    "limited",
]


class ManualInstances:
    """A fake source of instances that answers on demand and records its calls."""

    def __init__(self) -> None:
        self.calls: list[Deferred[Placed]] = []

    def place(self, players: Any) -> Deferred[Placed]:
        self.calls.append(Deferred())
        return self.calls[-1]


class ServerStatusTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, SERVER_NAME="My Host", CONTENT_PORT="61002")
        self.ann, self.bob = self.game.player("ann_1"), self.game.player("Bob_1")

    @proves(
        "label: registered",
        "the reply and its headers",
        "status carries version, commit and a source link",
    )
    def test_strangers_get_all_members_but_no_players_or_instances(self) -> None:
        self.game.browse("POST", "/heartbeat", token=self.ann.token, json={"map": "Map_LoginMenu"})
        ghost = self.game.parts.tokens.sign("UID-gone")
        for credentials in ({}, {"key": "UUK_no"}, {"token": "x.y.z"}, {"token": ghost}):
            page = self.game.browse("GET", PATH, **credentials)
            self.assertEqual(page.status, 200)
            self.assertEqual(list(page.json), KEYS)
            self.assertEqual(
                (
                    page.json["online"],
                    page.json["playersOnline"],
                    page.json["players"],
                    page.json["instances"],
                    page.json["limited"],
                ),
                (True, 0, [], [], True),
            )

    @proves("the reply and its headers", "GET /svc/api/ServerStatus")
    def test_registered_callers_see_players_by_name(self) -> None:
        self.game.browse("POST", "/heartbeat", token=self.bob.token, json={"map": "Map_LoginMenu"})
        self.game.browse("POST", "/heartbeat", token=self.ann.token, json={"state": "island"})
        self.game.browse(
            "POST", "/heartbeat", token=self.game.parts.tokens.sign("UID-gone"), json={}
        )
        for credentials in ({"key": self.ann.key}, {"token": self.ann.token}):
            page = self.game.browse("GET", PATH, **credentials)
            self.assertEqual(list(page.json), KEYS)
            self.assertEqual((page.json["online"], page.json["limited"]), (True, False))
            self.assertEqual(page.json["playersOnline"], 2)
            self.assertEqual(
                page.json["players"],
                [
                    {"name": "ann_1", "where": "hunt", "instance": None},
                    {"name": "Bob_1", "where": "menu", "instance": None},
                ],
            )
            self.assertNotIn(self.ann.id.encode(), page.body)
        self.assertEqual(page.headers["cache-control"], "no-store")
        self.assertEqual(page.headers["vary"], "x-svc-user-api-key, Authorization")
        self.assertEqual((page.json["name"], page.json["contentPort"]), ("My Host", 61002))

    @proves("thing: Registration mode")
    def test_an_invalid_mode_reads_as_none(self) -> None:
        for mode, shown in (("", "NONE"), ("odd", "NONE"), ("INVITECODE", "INVITECODE")):
            page = Game(self, REGISTRATION_MODE=mode).browse("GET", PATH)
            self.assertEqual(page.json["registration"], shown)

    @proves("GET /svc/api/ServerStatus", "limit: Server status cache; game-server list timeout")
    def test_each_variant_is_cached_for_five_seconds(self) -> None:
        first = self.game.browse("GET", PATH, key=self.ann.key).json
        self.game.browse("POST", "/heartbeat", token=self.bob.token, json={})
        self.game.clock.advance(4.9)
        self.assertEqual(self.game.browse("GET", PATH, key=self.ann.key).json, first)
        self.game.clock.advance(0.1)
        second = self.game.browse("GET", PATH, key=self.ann.key).json
        self.assertEqual((second["playersOnline"], second["uptimeSeconds"]), (1, 5))

    @proves("GET /svc/api/ServerStatus")
    def test_concurrent_requests_share_a_build_and_strangers_none(self) -> None:
        [feature] = [row.handler for row in self.game.door.rows if row.name == f"GET {PATH}"]
        self.assertIs(feature, ServerStatusRoutes.status)
        instances = ManualInstances()
        status = StatusReports(
            self.game.settings,
            _build(self.game),
            self.game.parts.registration,
            self.game.parts.online,
            self.game.parts.directory,
            instances,
            self.game.clock.seconds,
            self.game.clock.seconds(),
        )
        limited = self.successResultOf(status.limited())
        self.assertEqual((limited.limited, instances.calls), (True, []))
        waiting = [status.full() for _ in range(3)]
        waiting[0].addErrback(lambda why: None)
        waiting[0].cancel()
        [call] = instances.calls
        server = RunningGameServer("i", "city", "City", "a_01", None, 0, 32, None)
        call.callback(Placed([server], {}))
        for waiter in waiting[1:]:
            self.assertEqual(self.successResultOf(waiter).instances, [server])


def _build(game: Game) -> Any:
    from svcserver.metagame.owner.build import Build

    return Build.from_settings(game.settings)
