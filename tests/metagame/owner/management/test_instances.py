"""Game servers in the server status, with their players. Spec: 2 §2 Status reply."""

import json
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.ids import AccountId
from svcserver.kernel.launch_requests import check
from svcserver.metagame.owner.management.instances import DeployedInstances
from svcserver.metagame.owner.management.rules import Placed, Whereabouts
from svcserver.metagame.owner.management.wire import show_instance
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.matches import Server
from svcserver.metagame.play.presence.rules import Place
from tests.metagame.play.matchmaking.live import BoardMatchmaker
from tests.support.proves import proves

ANN, BOB, CLEO = AccountId("UID-ann"), AccountId("UID-bob"), AccountId("UID-cleo")
ISLAND_MAP = "/Game/Maps/islands/1705/dia_moss_triforce_2"


def record(number: int, kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"id-{number}",
        "port": 8770 + number,
        "kind": kind,
        "map": ISLAND_MAP,
        "gameMode": None,
        "behemoth": None,
        "huntId": None,
        "matchmakerHuntId": None,
        "expectedPlayers": [],
        "maxPlayers": None,
        "startedAt": "2026-09-21T12:00:00.000Z",
    } | changes


class Reply:
    """A reply of the deploy server."""

    def __init__(self, code: int, body: bytes) -> None:
        self.code, self.body = code, body

    def json(self) -> Deferred[Any]:
        try:
            return succeed(json.loads(self.body))
        except ValueError:
            return fail()


class Http:
    """A fake of treq."""

    answer: Any = None

    def request(self, method: str, url: str) -> Deferred[Any]:
        assert (method, url) == ("GET", "http://127.0.0.1:61001/gameservers")
        if self.answer is None:
            return Deferred()
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)


class InstancesCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.http = Clock(), Http()
        self.matches = BoardMatchmaker()
        deploy = DeployClient(self.http, self.clock, "127.0.0.1:61001", 30.0)
        self.instances = DeployedInstances(deploy, self.matches.matches, Titles.load(), "The City")

    def place(self, records: list[Any], *players: Whereabouts) -> Placed:
        self.http.answer = Reply(200, json.dumps({"servers": records}).encode())
        return self.successResultOf(self.instances.place(list(players)))

    def sent_to(self, player: AccountId, port: int) -> None:
        entry = self.matches.join(player, check("CITY", "", ""), None, 0.0)
        self.matches.due(entry.match, 0.0)
        self.matches.asking(entry.match, 0.0)
        self.matches.ready(entry.match, Server("127.0.0.1", port), 0.0)
        self.matches.sent(player, 0.0)


class WhoTests(InstancesCase):
    @proves("thing: Status reply: instances and each player's instance")
    def test_players_of_city_and_dojo_are_in_the_server_of_that_kind(self) -> None:
        placed = self.place(
            [record(7, "city"), record(6, "dojo")],
            Whereabouts(ANN, Place.CITY, "/Game/Maps/city/a_01_persistent"),
            Whereabouts(BOB, Place.DOJO, "training_dojo_persistent"),
        )
        self.assertEqual(placed.of_player, {ANN: "id-7", BOB: "id-6"})
        self.assertEqual([instance.players for instance in placed.instances], [1, 1])

    @proves("thing: Status reply: instances and each player's instance")
    def test_a_players_hunt_is_the_hunt_that_expects_the_player(self) -> None:
        hunts = [record(1, "hunt"), record(2, "hunt", expectedPlayers=[ANN, BOB])]
        placed = self.place(
            hunts,
            Whereabouts(ANN, Place.HUNT, ISLAND_MAP),
            Whereabouts(BOB, Place.HUNT, ISLAND_MAP),
            Whereabouts(CLEO, Place.HUNT, ISLAND_MAP),
        )
        self.assertEqual(placed.of_player, {ANN: "id-2", BOB: "id-2"})
        self.assertEqual([instance.players for instance in placed.instances], [0, 2])

    @proves("thing: Status reply: instances and each player's instance")
    def test_a_player_is_in_the_last_server_if_kind_and_map_match(self) -> None:
        self.sent_to(ANN, 8771)
        for player, wanted in (
            (Whereabouts(ANN, Place.TUTORIAL, ISLAND_MAP.upper()), {ANN: "id-1"}),
            (Whereabouts(ANN, Place.TUTORIAL, "/Game/Maps/other"), {}),
            (Whereabouts(ANN, Place.HUNT, ISLAND_MAP), {}),
            (Whereabouts(BOB, Place.TUTORIAL, ISLAND_MAP), {}),
        ):
            placed = self.place([record(1, "tutorial"), record(2, "tutorial")], player)
            self.assertEqual(placed.of_player, wanted)

    @proves("thing: Status reply: instances and each player's instance")
    def test_nobody_in_the_menu_is_in_an_instance(self) -> None:
        records = [record(7, "city"), record(1, "hunt", expectedPlayers=[ANN])]
        for where in (Place.MENU, Place.UNKNOWN):
            placed = self.place(records, Whereabouts(ANN, where, ISLAND_MAP))
            self.assertEqual(placed.of_player, {})


class ShownTests(InstancesCase):
    @proves("thing: Status reply: instances and each player's instance")
    def test_an_instance_has_eight_keys_and_no_account_id(self) -> None:
        [shown] = map(
            show_instance,
            self.place([record(1, "hunt", expectedPlayers=[ANN], maxPlayers=4)]).instances,
        )
        self.assertEqual(
            list(shown),
            ["id", "kind", "title", "map", "behemoth", "players", "maxPlayers", "startedAt"],
        )
        self.assertEqual((shown["map"], shown["maxPlayers"]), ("dia_moss_triforce_2", 4))
        self.assertNotIn(ANN, json.dumps(shown))

    @proves("thing: Status reply: instances and each player's instance")
    def test_titles_name_the_place_or_the_behemoth(self) -> None:
        quillshot = "/Game/Monsters/q/bullseye_beta_bp.bullseye_beta_bp_C"
        for server, title, behemoth in (
            (record(1, "city"), "The City", None),
            (record(1, "dojo"), "Training Dojo", None),
            (record(1, "tutorial"), "Tutorial", None),
            (record(1, "hunt", behemoth=quillshot), "Hunt: Lesser Quillshot", "Lesser Quillshot"),
            (record(1, "hunt", behemoth="/Game/M/new_bp.new_bp_C"), "Hunt: new", "new"),
            (record(1, "hunt"), "Hunt: dia_moss_triforce_2", None),
        ):
            [shown] = map(show_instance, self.place([server]).instances)
            self.assertEqual((shown["title"], shown["behemoth"]), (title, behemoth))

    @proves("thing: Status reply: instances and each player's instance")
    def test_the_matchmakers_hunt_names_the_behemoth_first(self) -> None:
        beaver = "/Game/Monsters/m/mcbeaver_bp.mcbeaver_bp_C"
        hunt, name = "CR19_MatchmakerHunt_Beaver_Heroic", "Heroic Ragetail Gnasher"
        for server, title, behemoth in (
            (record(1, "hunt", behemoth=beaver, matchmakerHuntId=hunt), f"Hunt: {name}", name),
            (record(1, "hunt", matchmakerHuntId=hunt), "Hunt: dia_moss_triforce_2", None),
            (record(1, "hunt", behemoth=7), "Hunt: dia_moss_triforce_2", None),
        ):
            [shown] = map(show_instance, self.place([server]).instances)
            self.assertEqual((shown["title"], shown["behemoth"]), (title, behemoth))

    @proves("thing: Status reply: instances and each player's instance")
    def test_a_hunt_without_a_behemoth_has_its_own_title(self) -> None:
        hunts = self.instances.titles.player_hunts
        hunt = next(iter(hunts))
        [shown] = map(show_instance, self.place([record(1, "hunt", huntId=hunt)]).instances)
        self.assertEqual((shown["kind"], shown["title"]), ("hunt", f"Hunt: {hunts[hunt]}"))

    @proves("thing: Status reply: instances and each player's instance")
    def test_a_city_without_a_limit_shows_32(self) -> None:
        [city, hunt] = map(
            show_instance, self.place([record(7, "city"), record(1, "hunt")]).instances
        )
        self.assertEqual((city["maxPlayers"], hunt["maxPlayers"]), (32, None))


class SilenceTests(InstancesCase):
    @proves("limit: Game-server list timeout 2 s")
    def test_no_usable_answer_is_an_empty_list(self) -> None:
        for answer in (
            ConnectionRefusedError(),
            Reply(500, b"{}"),
            Reply(200, b"<html>"),
            Reply(200, b"[]"),
            Reply(200, b'{"servers": 7}'),
            Reply(200, b'{"servers": [7, null, {}, {"id": 7, "map": "m", "expectedPlayers": []}]}'),
        ):
            self.http.answer = answer
            placed = self.successResultOf(
                self.instances.place([Whereabouts(ANN, Place.CITY, "a_01_persistent")])
            )
            self.assertEqual((placed.instances, placed.of_player), ([], {}))

    @proves("limit: Game-server list timeout 2 s")
    def test_a_silent_deploy_server_is_given_two_seconds(self) -> None:
        placing = self.instances.place([])
        self.clock.advance(1.9)
        self.assertNoResult(placing)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(placing).instances, [])
        self.assertEqual(self.clock.getDelayedCalls(), [])
