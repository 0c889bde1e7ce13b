"""The deploy server's routes, and the key of each launch."""

import tempfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.fleet import MemoryGuard
from svcserver.deploy.orders import Program
from svcserver.deploy.process import check_program
from svcserver.deploy.service import front_door
from svcserver.deploy.supervisor import Supervisor
from svcserver.kernel.machine import machine_headers
from svcserver.kernel.secrets import Secret, fingerprint
from svcserver.kernel.system import epoch
from svcserver.kernel.times import DAY_S
from tests.deploy.supervised import CITY, HUNT, SIGNING_KEY, SupervisorCase, owners_browser
from tests.support.browser import Browser
from tests.support.proves import proves

PATH = "/api/matchmaker/handle-matchmaking-for-player"


class LaunchKeyTests(SupervisorCase):
    """A launch key, visible in the process list, is valid only while its game server runs."""

    def launched(self) -> list[str]:
        return [command[1] for command in self.spawner.commands]

    def known(self, supervisor: Supervisor, key: str) -> bool:
        browse = owners_browser(self, supervisor)
        page = browse("GET", f"/gameservers/key?sha256={fingerprint(key)}")
        self.assertEqual(page.status, 200)
        return bool(page.json["known"])

    def test_each_launch_has_its_own_key_valid_while_it_runs(self) -> None:
        supervisor = self.make(program=Program("/srv/game", key=Secret("hush"), launch_keys=True))
        for request in (CITY, HUNT):
            self.successResultOf(self.ask(supervisor, request))
        city, hunt = self.launched()
        self.assertRegex(city, r"^[0-9a-f]{64}$")
        self.assertNotEqual(city, hunt)
        self.assertEqual([self.known(supervisor, key) for key in (city, hunt)], [True, True])
        self.spawner.children[1].end()
        self.assertEqual([self.known(supervisor, key) for key in (city, hunt)], [True, False])
        self.assertFalse(any(city in str(key) for key in supervisor.records()))
        self.assertNotIn(fingerprint(city), repr(supervisor.fleet))

    def test_the_key_of_a_hunt_names_the_players_of_its_launch(self) -> None:
        supervisor = self.make(program=Program("/srv/game", launch_keys=True))
        self.successResultOf(self.ask(supervisor, HUNT))
        browse = owners_browser(self, supervisor)
        page = browse("GET", f"/gameservers/key?sha256={fingerprint(self.launched()[0])}")
        self.assertEqual(page.json["players"], list(HUNT.players))

    def test_key_of_a_dead_server_is_invalid_before_its_end_is_seen(self) -> None:
        supervisor = self.make(program=Program("/srv/game", launch_keys=True))
        self.successResultOf(self.ask(supervisor, CITY))
        self.spawner.children[0].process.over = True
        self.assertFalse(self.known(supervisor, self.launched()[0]))

    def test_players_of_a_launch_are_named_for_a_day(self) -> None:
        supervisor = self.make(program=Program("/srv/game", launch_keys=True))
        self.successResultOf(self.ask(supervisor, HUNT))
        path = f"/gameservers/key?sha256={fingerprint(self.launched()[0])}"
        named = []
        for _ in range(2):
            named.append(owners_browser(self, supervisor)("GET", path).json["players"])
            self.clock.advance(DAY_S)
        self.assertEqual(named, [list(HUNT.players), []])

    def test_shared_key_is_no_launch_key(self) -> None:
        supervisor = self.make()
        self.successResultOf(self.ask(supervisor, CITY))
        self.assertEqual(self.launched(), ["hush"])
        self.assertFalse(self.known(supervisor, "hush"))
        for query in ("", "?sha256=", "?sha256=x"):
            page = owners_browser(self, supervisor)("GET", f"/gameservers/key{query}")
            self.assertEqual(page.json, {"known": False})


class RouteTests(SupervisorCase):
    on_klein = False

    def setUp(self) -> None:
        self.supervisor = self.make()
        self.browse = Browser(self, front_door(self.supervisor), on_klein=self.on_klein)

    def post(self, body: Any, **sent: Any) -> Any:
        return self.browse("POST", PATH, json=body, **sent)

    @proves(
        "started by a matchmaking call; answers as soon as it is spawned",
        "deploy: CITY: the city server; anything else: the city",
        "deploy: POST /api/matchmaker/handle-matchmaking-for-player",
    )
    def test_the_city_is_handed_out_with_a_number_for_a_port(self) -> None:
        for body in ({"GameMode": "CITY"}, {}, {"GameMode": "ISLAND", "GameArgs": " "}):
            self.assertEqual(self.post(body).json, {"host": "203.0.113.9", "port": 8777})

    def test_repeated_requests_for_a_match_get_one_server(self) -> None:
        hunt = {"GameMode": "ISLAND", "HuntId": HUNT.hunt_id, "ExpectedPlayers": ["UID-a"]}
        ports = [
            self.post(hunt, headers={"X-Svc-Match": match}).json["port"]
            for match in ("m-1", "m-1", "m-2")
        ]
        self.assertEqual((ports[0] == ports[1], ports[0] == ports[2]), (True, False))
        page = self.post(hunt, headers={"X-Svc-Match": "a b"})
        self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))

    @proves("deploy: 400 bad_request: the input is checked here again", "Deploy server errors")
    def test_bad_input_is_400_with_a_message(self) -> None:
        for body in ({"HuntId": "a b"}, {"ExpectedPlayers": ["a:b"]}, [], {"GameMode": 7}):
            page = self.post(body)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
            self.assertTrue(page.json["message"])
        self.assertEqual(self.browse("POST", PATH, data=b"{").status, 400)

    @proves(
        "deploy: 500 no_game_server",
        "deploy: 503 capacity_unavailable, reason memory or ports, Retry-After: 10",
        "Deploy server errors",
        "limit: Deploy server: JSON body 100 kB, launches spaced, capacity hint 10 s",
    )
    def test_no_server_is_500_and_no_capacity_503(self) -> None:
        page = self.post({"GameMode": "ISLAND", "HuntId": "Nope", "ExpectedPlayers": ["UID-a"]})
        self.assertEqual((page.status, page.json), (500, {"error": "no_game_server"}))
        self.supervisor.guard = MemoryGuard(10, 1, 1, 60.0, lambda: 5.0)
        page = self.post({"GameMode": "CITY"})
        self.assertEqual(
            (page.status, page.json), (503, {"error": "capacity_unavailable", "reason": "memory"})
        )
        self.assertEqual(page.headers["retry-after"], "10")
        self.assertEqual(self.supervisor.shortages, 1)

    @proves(
        "deploy: 403 for callers not on loopback or with a proxy header", "Deploy server errors"
    )
    def test_any_proxy_header_is_403(self) -> None:
        for name in (
            "X-Svc-Gateway",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "Forwarded",
            "X-Real-IP",
            "Via",
        ):
            for method, path in (
                ("POST", PATH),
                ("GET", "/gameservers"),
                ("GET", "/gameservers/key"),
            ):
                page = self.browse(method, path, headers={name: "x"})
                self.assertEqual((page.status, page.body), (403, b""))

    def test_owner_routes_refuse_callers_without_a_ticket(self) -> None:
        requests = (
            ("POST", "/gameservers/handle", {"Act": "start", "Kind": "city"}),
            ("POST", "/gameservers/heard", {"Ids": []}),
            ("GET", "/gameservers/console?id=x", None),
            ("GET", "/gameservers/key?sha256=x", None),
        )
        routes = front_door(self.supervisor, secrets=lambda: [SIGNING_KEY])
        browse = Browser(self, routes, on_klein=self.on_klein)
        for method, path, body in requests:
            foreign = machine_headers("another key", "svc-metagame", method, path, epoch())
            for headers in ({}, {"X-Svc-Machine": "x"}, foreign):
                page = browse(method, path, json=body, headers=headers)
                self.assertEqual(page.status, 403, path)
        self.assertEqual(self.spawner.commands, [])

    def test_without_a_signing_key_no_ticket_counts(self) -> None:
        path = "/gameservers/key?sha256=x"
        for key in ("", SIGNING_KEY):
            ticket = machine_headers(key, "svc-metagame", "GET", path, epoch())
            self.assertEqual(self.browse("GET", path, headers=ticket).status, 403)

    @proves("deploy: GET /gameservers")
    def test_game_servers_are_listed_while_they_live(self) -> None:
        self.post({"GameMode": "CITY"})
        [record] = self.browse("GET", "/gameservers").json["servers"]
        self.assertEqual((record["kind"], record["port"]), ("city", 8777))
        self.spawner.children[-1].end(by=9)
        self.assertEqual(self.browse("GET", "/gameservers").json, {"servers": []})

    @proves("deploy: unknown path: HTML 404")
    def test_an_unknown_path_is_an_html_404(self) -> None:
        page = self.browse("GET", "/nope")
        self.assertEqual(page.status, 404)
        self.assertTrue(page.headers["content-type"].startswith("text/html"))


class ProgramTests(SynchronousTestCase):
    @proves("deploy: 500 no_game_server")
    def test_program_is_checked_before_the_fork(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        plain = Path(folder, "plain")
        plain.write_text("x")
        for path, error in (
            (folder, IsADirectoryError),
            (str(plain), PermissionError),
            ("/nope", FileNotFoundError),
            ("", OSError),
        ):
            with self.assertRaises(error):
                check_program(path)


class RoutesOnKlein(RouteTests):
    """All tests of the routes, on the Klein app."""

    on_klein = True
