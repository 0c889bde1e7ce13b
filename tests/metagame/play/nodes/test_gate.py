"""Attacks of a hostile node on the gate of the fleet's listener."""

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.nodes import FleetFolder
from svcserver.kernel import json
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.rates import Rate
from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.times import DAY_S
from svcserver.metagame.fleet import fleet_router
from svcserver.metagame.play.matches import Server
from svcserver.metagame.play.matchmaking.rules import LEFT_S
from svcserver.metagame.play.nodes.agents import LIST_S
from svcserver.metagame.play.nodes.gate import RATES
from svcserver.metagame.play.nodes.orders import POLL_S
from svcserver.web.front import FrontDoor
from svcserver.web.request import HttpRequest
from tests.support.browser import Browser, Page
from tests.support.game import GAME_SERVER_KEY, Game, Player

HUNT_KEY, CITY_KEY, THEIR_KEY = ("a" * 64, "b" * 64, "c" * 64)
NODE, SECOND_NODE = "node1", "node2"
HUNT, CITY = Server("203.0.113.5", 8770, NODE), Server("203.0.113.5", 8777, NODE)
CALL: dict[str, Any] = {"json": {}}


@define
class Reply:
    """A reply of the deploy server."""

    document: Any
    code: int = 200

    def json(self) -> Deferred[Any]:
        return succeed(self.document)


@define
class KnownKeys:
    """A fake of treq whose deploy server knows these launch keys."""

    servers: dict[str, dict[str, Any]] = field(factory=dict)
    machines: list[dict[str, Any]] | None = None  # None: the deploy server is away

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        if url.endswith("/gameservers/machines"):
            if self.machines is None:
                return fail(ConnectionRefusedError())
            return succeed(Reply({"machines": self.machines}))
        server = self.servers.get(url.partition("sha256=")[2])
        return succeed(Reply({"known": False} if server is None else {"known": True, **server}))

    def add(
        self, key: str, kind: str, server: Server, node: str, match: str = "", *players: str
    ) -> None:
        self.servers[fingerprint(key)] = {
            "kind": kind,
            "host": server.host,
            "port": server.port,
            "node": node,
            "match": match,
            "players": list(players),
        }


def machine(node: str, state: str) -> dict[str, Any]:
    """Return a machine as the deploy server lists it."""
    texts = {"id": node, "name": node, "address": "203.0.113.5", "state": state, "version": ""}
    numbers = dict.fromkeys(("memoryBytes", "reservedBytes", "hunts", "players", "room"), 0)
    return {**texts, **numbers, "own": False, "reached": None}


@define
class NodeFront:
    """An HTTP entry point whose requests all come from one node."""

    front: FrontDoor
    node: str

    @property
    def max_json(self) -> int:
        return self.front.max_json

    def early(self, request: HttpRequest, length: int | None) -> Any:
        request.node = self.node
        return self.front.early(request, length)

    def answer(self, request: HttpRequest) -> Any:
        request.node = self.node
        return self.front.answer(request)

    def page(self, status: int, why: BaseException | None) -> Any:
        return self.front.page(status, why)


class NodeGateTests(SynchronousTestCase):
    """Ann is in a hunt on the node, Bob is in the node's city, and Eve is on no game server."""

    def setUp(self) -> None:
        self.keys = KnownKeys()
        self.game = Game(self, http=self.keys)
        self.ann, self.bob, self.eve = map(self.game.player, ("Ann_1", "Bob_1", "Eve_1"))
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.fleet = FleetFolder(folder)
        for node in (NODE, SECOND_NODE):
            self.fleet.issue(node, "203.0.113.5", "203.0.113.1", 61009)
        match = self.send(self.ann, LaunchRequest("ISLAND", "map", "Hunt"), HUNT)
        self.send(self.bob, LaunchRequest("CITY", "", ""), CITY)
        self.keys.add(HUNT_KEY, "hunt", HUNT, NODE, match)
        self.keys.add(CITY_KEY, "city", CITY, NODE)
        self.keys.add(THEIR_KEY, "hunt", Server("203.0.113.6", 8769), SECOND_NODE, match)
        self.door = fleet_router(self.game.parts, self.fleet)
        self.browse = self.browser(NODE)

    def browser(self, node: str) -> Browser:
        front: Any = NodeFront(self.door, node)
        return Browser(self, front)

    def send(self, player: Player, request: LaunchRequest, server: Server) -> str:
        """Match a player, and send the player to the game server; return the match's id."""

        def work(rules: Any) -> str:
            entry = rules.join(player.id, request, None)
            rules.ready(entry.match, server)
            rules.sent(player.id, entry)
            return str(entry.match.id)

        return self.successResultOf(self.game.parts.matches.transact(work))

    def grant(self, player: Player, key: str = HUNT_KEY, **sent: Any) -> int:
        path = f"/progression/{player.id}"
        return self.browse("POST", path, game_server=key, **(sent or CALL)).status

    def is_down(self) -> bool:
        """Poll for orders as the node's agent; return whether the reply says the node is lost."""
        self.game.clock.advance(LIST_S)
        poll = {"json": {"done": [], "helper": False}}
        page = self.browse.ask("POST", "/svc/node/orders", **poll)
        self.game.clock.advance(POLL_S)
        self.browse.flush()
        return bool(self.successResultOf(page).json["down"])

    def test_agent_of_a_machine_that_the_swarm_has_lost_is_notified(self) -> None:
        self.assertFalse(self.is_down())  # the deploy server does not answer
        for state in ("ready", "down"):
            self.keys.machines = [machine(NODE, state), machine(SECOND_NODE, "down")]
            self.assertEqual(self.is_down(), state == "down")

    def test_a_hunt_acts_for_its_own_players_only(self) -> None:
        self.assertEqual(self.grant(self.ann), 200)
        self.assertEqual([self.grant(player) for player in (self.bob, self.eve)], [403, 403])

    def test_a_hunt_acts_for_its_players_after_a_metagame_restart(self) -> None:
        self.keys.add(HUNT_KEY, "hunt", HUNT, NODE, "of an earlier run", self.ann.id)
        self.assertEqual(self.grant(self.ann), 200)
        self.assertEqual([self.grant(player) for player in (self.bob, self.eve)], [403, 403])

    def test_a_hunt_that_never_ends_acts_for_a_day(self) -> None:
        statuses = []
        for _ in range(25):
            statuses.append(self.grant(self.ann))
            self.game.clock.advance(DAY_S / 24)
        self.assertEqual(statuses, [200] * 24 + [403])

    def test_a_flood_of_requests_is_refused(self) -> None:
        with mock.patch.dict(RATES, {False: Rate(2, 60)}):
            self.door = fleet_router(self.game.parts, self.fleet)
        self.browse = self.browser(NODE)
        self.assertEqual([self.grant(self.eve) for _ in range(3)], [403, 403, 429])
        self.game.clock.advance(1)
        self.assertEqual(self.grant(self.ann), 200)

    def test_the_city_acts_only_for_players_sent_to_it(self) -> None:
        self.assertEqual(self.grant(self.bob, CITY_KEY), 200)
        statuses = [self.grant(player, CITY_KEY) for player in (self.ann, self.eve)]
        self.assertEqual(statuses, [403, 403])

    def test_the_city_can_save_a_player_shortly_after_departure(self) -> None:
        self.send(self.bob, LaunchRequest("ISLAND", "map", "Hunt"), HUNT)
        self.assertEqual(self.grant(self.bob, CITY_KEY), 200)
        self.game.clock.advance(LEFT_S + 1)
        self.assertEqual(self.grant(self.bob, CITY_KEY), 403)

    def test_a_key_ends_with_its_game_server(self) -> None:
        self.assertEqual(self.grant(self.ann), 200)
        self.keys.servers.clear()
        self.assertEqual(self.grant(self.ann), 401)

    def test_the_key_of_another_node_is_refused(self) -> None:
        self.assertEqual(self.grant(self.ann, THEIR_KEY), 401)
        self.browse = self.browser(SECOND_NODE)
        self.assertEqual(self.grant(self.ann, HUNT_KEY), 401)

    def test_the_hosts_registered_key_is_refused(self) -> None:
        self.assertEqual(self.grant(self.ann, GAME_SERVER_KEY), 401)

    def test_a_revoked_node_is_refused(self) -> None:
        self.fleet.revoke(NODE)
        self.assertEqual(self.grant(self.ann), 403)
        large = {"data": b"x" * 100_000}
        self.assertEqual(self.grant(self.ann, HUNT_KEY, **large), 403)
        self.browse = self.browser("")
        self.assertEqual(self.grant(self.ann), 403)

    def test_a_list_of_a_later_version_is_read(self) -> None:
        file = self.fleet.path / "nodes.json"
        nodes = [{**entry, "later": 1} for entry in json.parse(file.read_bytes())]
        file.write_bytes(json.dump(nodes))
        self.assertEqual(
            [node.id for node in FleetFolder(file.parent).nodes()], [NODE, SECOND_NODE]
        )

    def test_an_account_in_the_body_is_checked(self) -> None:
        for player, status in ((self.ann, 200), (self.eve, 403)):
            character = self.game.browse("GET", "/character", token=player.token).json[0]
            body: dict[str, Any] = {"accountId": player.id, "characterId": character["id"]}
            stack = {"catalogId": "ITEM_A", "quantity": 1}
            body |= {"addedStackedItems": [stack], "transactionId": "1"}
            page = self.browse("POST", "/inventory", game_server=HUNT_KEY, json=body)
            self.assertEqual(page.status, status, page.body)
        body = {"leaderAccountId": self.eve.id, "name": "Wolves", "nameplate": "WLV"}
        page = self.browse("POST", "/guild", game_server=CITY_KEY, json=body)
        self.assertEqual(page.status, 403)

    def test_the_token_of_a_strange_player_is_refused(self) -> None:
        statuses = [
            self.browse("GET", "/character", game_server=HUNT_KEY, token=player.token).status
            for player in (self.ann, self.eve)
        ]
        self.assertEqual(statuses, [200, 403])

    def test_no_other_credential_counts_here(self) -> None:
        owner = self.game.player("Olga", admin=True)
        for sent in (
            {"token": self.ann.token},
            {"key": owner.key},
            {"key": owner.key, "game_server": HUNT_KEY},
        ):
            page = self.browse("GET", f"/progression/{self.ann.id}", **sent)
            self.assertIn(page.status, (401, 403))

    def test_routes_outside_the_node_gate_are_404(self) -> None:
        owner = self.game.player("Olga", admin=True)
        for path in ("/svc/api/InviteCodes", "/dashboard", "/account/api/oauth/token", "/QoS"):
            page = self.browse("GET", path, key=owner.key, game_server=HUNT_KEY)
            self.assertEqual(page.status, 404, path)

    def test_a_request_through_a_proxy_is_refused(self) -> None:
        page: Page = self.browse(
            "POST", f"/progression/{self.ann.id}", game_server=HUNT_KEY, headers={"Via": "x"}
        )
        self.assertEqual(page.status, 403)

    def test_a_large_body_is_refused_before_it_is_read(self) -> None:
        body = b"x" * (self.door.max_json + 1)
        page = self.browse("POST", "/inventory", game_server=HUNT_KEY, data=body)
        self.assertEqual(page.status, 413)
