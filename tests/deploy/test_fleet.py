"""Ports and memory never leak, whatever the order of events."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.fleet import Fleet, MemoryGuard, NoCapacity
from svcserver.deploy.hunts import GameServerKind, Launch
from tests.support.proves import proves

FREE = lambda port: False  # noqa: E731


class FleetTests(SynchronousTestCase):
    @proves("ports: city last, dojo before it, hunts highest first")
    def test_city_has_the_last_port_dojo_the_next_hunts_the_rest(self) -> None:
        fleet = Fleet(8770, 8777)
        self.assertEqual(fleet.hold(GameServerKind.CITY, FREE), 8777)
        self.assertEqual(fleet.hold(GameServerKind.DOJO, FREE), 8776)
        self.assertEqual(
            [fleet.hold(GameServerKind.HUNT, FREE) for _ in range(6)],
            [8775, 8774, 8773, 8772, 8771, 8770],
        )
        with self.assertRaises(NoCapacity) as caught:
            fleet.hold(GameServerKind.TUTORIAL, FREE)
        self.assertEqual(caught.exception.reason, "ports")

    @proves("ports: city last, dojo before it, hunts highest first")
    def test_port_held_by_another_program_is_skipped(self) -> None:
        self.assertEqual(
            Fleet(8770, 8777).hold(GameServerKind.HUNT, lambda port: port > 8772), 8772
        )

    @proves("ports: city last, dojo before it, hunts highest first")
    def test_a_hunt_worker_leaves_the_top_two_unused(self) -> None:
        fleet = Fleet(8770, 8777, hunt_worker=True)
        self.assertEqual(fleet.hold(GameServerKind.HUNT, FREE), 8775)
        with self.assertRaises(NoCapacity):
            fleet.hold(GameServerKind.CITY, FREE)

    @proves("deploy: GET /gameservers")
    def test_game_server_kind_is_one_of_four_words(self) -> None:
        self.assertEqual(
            [kind.value for kind in GameServerKind], ["city", "hunt", "dojo", "tutorial"]
        )

    @proves("deploy: GET /gameservers")
    def test_the_record_has_the_documented_shape(self) -> None:
        fleet = Fleet(8770, 8777)
        launch = Launch(
            GameServerKind.HUNT,
            "/Game/a",
            "?game=g",
            "g",
            None,
            "None",
            "mm",
            "hunt",
            ("UID-a",),
            4,
        )
        server = fleet.started(launch, 8775, 42, 1_790_000_000.0)
        self.assertEqual(
            server.record(),
            {
                "id": server.id,
                "port": 8775,
                "kind": "hunt",
                "map": "/Game/a",
                "gameMode": "g",
                "behemoth": None,
                "huntId": "hunt",
                "matchmakerHuntId": "mm",
                "expectedPlayers": ["UID-a"],
                "maxPlayers": 4,
                "startedAt": "2026-09-21T14:13:20.000Z",
            },
        )


class GuardTests(SynchronousTestCase):
    @proves("deploy: 503 capacity_unavailable, reason memory or ports, Retry-After: 10")
    def test_reservations_count_until_they_end_or_fail(self) -> None:
        guard = MemoryGuard(3072, 1536, 1000, 60.0, lambda: 6000.0)
        first = guard.reserve(GameServerKind.CITY, 0.0)
        with self.assertRaises(NoCapacity) as caught:
            guard.reserve(GameServerKind.CITY, 59.0)
        self.assertEqual(caught.exception.reason, "memory")
        guard.release(first)
        guard.reserve(GameServerKind.CITY, 59.0)
        guard.reserve(GameServerKind.CITY, 200.0)

    def test_reservation_is_exact_to_the_megabyte_and_second(self) -> None:
        guard = MemoryGuard(3072, 1536, 1000, 60.0, lambda: 4608.0)
        guard.reserve(GameServerKind.CITY, 0.0)
        with self.assertRaises(NoCapacity) as caught:
            guard.reserve(GameServerKind.CITY, 59.999)
        self.assertEqual(str(caught.exception), "memory")  # what the log says
        guard.reserve(GameServerKind.DOJO, 60.0)

    @proves("deploy: 503 capacity_unavailable, reason memory or ports, Retry-After: 10")
    def test_hunts_have_their_own_cost(self) -> None:
        guard = MemoryGuard(100, 50, 10, 60.0, lambda: 112.0)
        guard.reserve(GameServerKind.HUNT, 0.0)
        with self.assertRaises(NoCapacity):
            guard.reserve(GameServerKind.HUNT, 0.0)


class FleetMachine(RuleBasedStateMachine):
    """Random launches, failures and exits of game servers."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(9000, 9007)
        self.held: dict[int, GameServerKind] = {}
        self.running: dict[str, int] = {}

    @rule(
        kind=st.sampled_from(GameServerKind), strangers=st.sets(st.integers(9000, 9007), max_size=3)
    )
    def hold(self, kind: GameServerKind, strangers: set[int]) -> None:
        try:
            port = self.fleet.hold(kind, lambda port: port in strangers)
        except NoCapacity:
            return
        assert port not in strangers
        assert port not in self.held and port not in self.running.values()
        self.held[port] = kind

    @rule(choice=st.integers(0, 7))
    def start(self, choice: int) -> None:
        if self.held:
            port = sorted(self.held)[choice % len(self.held)]
            server = self.fleet.started(Launch(self.held.pop(port), "/Game/a"), port, 1, 0.0)
            self.running[server.id] = port

    @rule(choice=st.integers(0, 7))
    def fail(self, choice: int) -> None:
        if self.held:
            port = sorted(self.held)[choice % len(self.held)]
            del self.held[port]
            self.fleet.release(port)

    @rule(choice=st.integers(0, 7), twice=st.booleans())
    def end(self, choice: int, twice: bool) -> None:
        if self.running:
            server_id = sorted(self.running)[choice % len(self.running)]
            del self.running[server_id]
            for _ in range(1 + twice):
                self.fleet.ended(server_id)

    @invariant()
    def one_port_one_server(self) -> None:
        ports = [server.port for server in self.fleet.servers.values()]
        assert sorted(ports) == sorted(self.running.values())
        assert len(ports) == len(set(ports))

    def teardown(self) -> None:
        for port in list(self.held):
            self.fleet.release(port)
        for server_id in list(self.running):
            self.fleet.ended(server_id)
        taken = 0
        for kind in (GameServerKind.CITY, GameServerKind.DOJO, *[GameServerKind.HUNT] * 6):
            self.fleet.hold(kind, FREE)
            taken += 1
        assert taken == 8


FleetMachineTests = FleetMachine.TestCase
FleetMachineTests.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
