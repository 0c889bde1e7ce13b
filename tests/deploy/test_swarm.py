"""Game servers as services of a Docker Swarm, with a swarm in memory."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from simulation.swarm import MB, FakeSwarm
from svcserver.deploy.fleet import GameServer, NoCapacity
from svcserver.deploy.hunts import GameServerKind, Unlaunchable
from svcserver.deploy.launch_history import EndedMatches
from svcserver.deploy.orders import Program
from svcserver.deploy.service import supervise
from svcserver.deploy.settings import DeploySettings
from svcserver.deploy.supervisor import Supervisor
from svcserver.deploy.swarm import (
    AVOIDED_S,
    HELD_S,
    STALE_S,
    START_S,
    TRUSTED,
    WAITS_S,
    Machines,
    State,
    SwarmEngine,
    Task,
    observe,
)
from svcserver.deploy.swarm_setup import place_on
from svcserver.kernel.secrets import Secret, fingerprint
from svcserver.kernel.settings import load
from tests.deploy.supervised import CITY, HUNT, SupervisorCase, owners_browser

MATCH = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
WORKER = Machines({"node1": "10.0.0.1"}, frozenset({"node2"}))


def task(state: str, node: str = "node1", created: str = "1", **more: Any) -> Task:
    return evolve(Task(state, "running", node, 0, "", created), **more)


class SwarmCase(SupervisorCase):
    """A supervisor on a swarm; ``pass_s`` lets both work for some seconds."""

    def setUp(self) -> None:
        self.swarm: FakeSwarm | None = None
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def on_swarm(self) -> Supervisor:
        """Return a supervisor that has adopted what the swarm runs."""
        supervisor = self.make(
            program=Program("/game", key=Secret("hush"), launch_keys=True), host=None
        )
        self.swarm = swarm = self.swarm or FakeSwarm()
        api: Any = swarm
        self.engine = SwarmEngine(
            self.clock,
            api,
            "127.0.0.1:61001",
            "game:1",
            "203.0.113.9",
            lambda kind: 400,
            ended=EndedMatches(self.folder / "matches.log"),
        )
        place_on(supervisor, self.engine)
        began = self.engine.begin()
        self.pass_s(0.1)
        self.successResultOf(began)
        return supervisor

    @property
    def running(self) -> FakeSwarm:
        assert self.swarm is not None
        return self.swarm

    def pass_s(self, seconds: float) -> None:
        for _ in range(int(seconds * 10) + 1):
            if self.swarm is not None:
                self.swarm.step()
            self.clock.advance(0.1)

    def hunt(self, supervisor: Supervisor, match: str = MATCH) -> Deferred[GameServer]:
        return Deferred.fromCoroutine(supervisor.hand_out(HUNT, match))


class SwarmTests(SwarmCase):
    def test_a_hunt_is_a_service_whose_definition_has_no_key(self) -> None:
        supervisor = self.on_swarm()
        launch = self.hunt(supervisor)
        self.pass_s(1)
        server = self.successResultOf(launch)
        self.assertEqual((server.host, server.port), ("203.0.113.9", 8775))
        [service] = self.running.services.values()
        spec = service["Spec"]
        self.assertEqual(spec["Name"], f"svc-{MATCH}")
        self.assertEqual(spec["TaskTemplate"]["RestartPolicy"], {"Condition": "none"})
        self.assertEqual(
            spec["TaskTemplate"]["ContainerSpec"]["Args"][:3], ["/game", "SVC_KEY", "8775"]
        )
        self.assertEqual(spec["TaskTemplate"]["LogDriver"]["Options"]["max-size"], "1m")
        key = self.key()
        self.assertIsNotNone(supervisor.find_key(fingerprint(key)))
        self.assertNotIn(key, str(service))

    def test_chosen_kinds_and_hunts_run_on_trusted_machines_only(self) -> None:
        supervisor = self.on_swarm()

        def constraints() -> list[str]:
            self.pass_s(1)
            [service] = self.running.services.values()
            self.running.services.clear()
            self.pass_s(6)
            return list(service["Spec"]["TaskTemplate"]["Placement"]["Constraints"])

        for number, chosen in enumerate(("dojo", "hunt", HUNT.hunt_id)):
            self.engine.trusted = frozenset((chosen,))
            launch = self.hunt(supervisor, f"0000000{number}-0000-4000-8000-000000000000")
            launch.addErrback(lambda _: None)
            expected = [] if chosen == "dojo" else [TRUSTED]
            self.assertEqual(constraints(), expected, chosen)

    def test_machine_that_rejects_a_hunt_gets_no_other_for_a_while(self) -> None:
        supervisor = self.on_swarm()
        self.running.machines["node2"] = 4000
        self.running.rejecting.add("node1")
        self.failureResultOf(self.launched(supervisor, 1), Unlaunchable)
        self.assertEqual(self.successResultOf(self.launched(supervisor, 2)).node, "node2")
        self.running.rejecting.clear()
        city = Deferred.fromCoroutine(supervisor.hand_out(CITY))
        self.pass_s(2)
        self.assertEqual(self.successResultOf(city).node, "node1")
        self.pass_s(AVOIDED_S)
        self.assertEqual(self.successResultOf(self.launched(supervisor, 3)).node, "node1")

    def test_rejection_by_all_machines_is_not_reported_as_full_memory(self) -> None:
        supervisor = self.on_swarm()
        self.running.rejecting.add("node1")
        for number in (1, 2):
            self.failureResultOf(self.launched(supervisor, number), Unlaunchable)
        self.running.rejecting.clear()
        self.assertEqual(self.successResultOf(self.launched(supervisor, 3)).node, "node1")

    def test_mistyped_name_in_gameserver_trusted_is_logged(self) -> None:
        environ = {"PORT": "1", "GAMESERVER_ENGINE": "swarm", "GAMESERVER_TRUSTED": "city,dojoo"}
        settings, _ = load(DeploySettings, environ)
        with capturedLogs() as events:
            supervise(settings, Clock(), {})
        self.assertEqual([event["name"] for event in events], ["dojoo"])

    def test_address_label_that_is_no_address_is_logged(self) -> None:
        self.on_swarm()
        self.running.labels["node1"] = {"svc.address": "203.0.113.999"}
        with capturedLogs() as events:
            self.pass_s(20)
        self.assertEqual([event["text"] for event in events], ["203.0.113.999"])

    def launched(self, supervisor: Supervisor, number: int) -> Deferred[GameServer]:
        launch = self.hunt(supervisor, f"0000000{number}-0000-4000-8000-000000000000")
        self.pass_s(2)
        return launch

    def key(self) -> str:
        [secret] = self.running.secrets.values()
        return base64.b64decode(secret["Data"]).decode()

    def test_repeated_launch_of_a_match_gets_the_same_server(self) -> None:
        supervisor = self.on_swarm()
        launches = [self.hunt(supervisor), self.hunt(supervisor)]
        self.pass_s(1)
        launches.append(self.hunt(supervisor))
        self.assertEqual(len({self.successResultOf(launch).id for launch in launches}), 1)
        self.assertEqual(len(self.running.starts), 1)

    def test_launch_without_room_is_removed_and_never_starts(self) -> None:
        self.swarm = None
        supervisor = self.on_swarm()
        launches = [self.hunt(supervisor, f"{MATCH[:-1]}{number}") for number in range(3)]
        self.pass_s(4)
        self.assertNoResult(launches[2])
        self.pass_s(2)
        self.assertEqual(self.failureResultOf(launches[2], NoCapacity).value.reason, "memory")
        self.assertEqual((len(self.running.services), len(self.running.secrets)), (2, 2))
        self.running.machines["node2"] = 4000
        self.pass_s(10)
        self.assertEqual(len(self.running.starts), 2)
        self.assertEqual(len(supervisor.records()), 2)

    def test_end_of_a_hunt_frees_its_port_and_removes_it(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.pass_s(1)
        self.running.end(self.running.running()[0], 3)
        self.pass_s(6)
        self.assertEqual(supervisor.records(), [])
        self.assertEqual(supervisor.history.newest()[0]["how"], "code 3")
        self.assertEqual((self.running.services, self.running.secrets), ({}, {}))
        self.assertEqual(self.running.tasks, [])

    def test_hunts_of_a_lost_machine_end(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.pass_s(1)
        self.running.machines["node2"] = 1024
        self.running.lose("node1")
        self.pass_s(6)
        self.assertEqual(supervisor.records(), [])
        self.assertEqual(self.running.services, {})
        self.assertEqual(len(self.running.starts), 1)

    def lose_the_port(self, lose: Callable[[str], None]) -> None:
        """Lose the machine of the only hunt; the hunt's port must stay in use for ``HELD_S``.

        By then, the lost machine's agent has ended the hunt.
        """
        supervisor = self.on_swarm()
        self.running.machines |= {"node2": 4096}
        supervisor.fleet.first_port = 8775  # one hunt
        self.hunt(supervisor)
        self.pass_s(1)
        lose("node1")
        self.pass_s(HELD_S - 5)
        refusal = self.failureResultOf(self.hunt(supervisor, f"{MATCH[:-1]}1"), NoCapacity)
        self.assertEqual(refusal.value.reason, "ports")
        self.pass_s(10)
        launch = self.hunt(supervisor, f"{MATCH[:-1]}1")
        self.pass_s(1)
        self.assertEqual(self.successResultOf(launch).port, 8775)

    def test_port_of_a_lost_machine_s_hunt_is_not_used_for_a_minute(self) -> None:
        self.lose_the_port(lambda node: self.running.lose(node))

    def test_port_of_a_removed_machine_is_not_used_for_a_minute(self) -> None:
        self.lose_the_port(lambda node: self.running.remove(node))

    def check_failure(self, launch: Deferred[GameServer], reason: str) -> None:
        """Check that a launch failed and is not repeated; its hunt has possibly started."""
        self.pass_s(3)
        failure = self.failureResultOf(launch, Unlaunchable)
        self.assertIn(reason, str(failure.value))
        self.assertEqual(self.running.starts, [f"svc-{MATCH}"])

    def test_launch_on_a_machine_that_is_lost_is_not_tried_again(self) -> None:
        supervisor = self.on_swarm()
        launch = self.hunt(supervisor)
        self.running.step()
        self.assertEqual(self.running.tasks[0]["NodeID"], "node1")
        self.running.machines["node2"] = 4096
        self.running.lose("node1")
        self.check_failure(launch, "its machine is lost")

    def test_launch_on_a_machine_without_address_fails_for_good(self) -> None:
        self.swarm = FakeSwarm({"node1": 10, "unnamed": 4096})
        supervisor = self.on_swarm()
        self.check_failure(self.hunt(supervisor), "svc.address")
        self.pass_s(3)
        self.assertEqual((self.running.services, self.running.tasks), ({}, []))
        self.assertEqual(supervisor.records(), [])
        self.assertIn("svc.address", supervisor.history.newest()[0]["reason"])

    def test_launch_that_failed_is_not_begun_again_after_a_restart(self) -> None:
        """The metagame has restarted as well, so it repeats a launch that has already failed."""
        supervisor = self.on_swarm()
        launch = self.hunt(supervisor)
        self.running.step()
        self.running.machines["node2"] = 4096
        self.running.lose("node1")
        self.check_failure(launch, "its machine is lost")
        for _ in range(2):
            self.check_failure(self.hunt(supervisor), "may already have started or ended")
            self.engine.stop()
            supervisor = self.on_swarm()

    def test_hunt_that_was_lost_during_a_restart_is_not_begun_again(self) -> None:
        self.hunt(self.on_swarm()).addErrback(lambda why: why.trap(NoCapacity))
        self.running.step()
        self.engine.stop()
        self.running.machines["node2"] = 4096
        self.running.lose("node1")
        self.check_failure(self.hunt(self.on_swarm()), "may already have started or ended")

    def test_match_of_an_ended_hunt_gets_no_second_hunt(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.pass_s(1)
        self.running.end(self.running.running()[0])
        self.pass_s(6)
        self.check_failure(self.hunt(supervisor), "may already have started or ended")

    def test_launch_without_room_can_be_tried_again(self) -> None:
        self.swarm = FakeSwarm({"node1": 10})
        supervisor = self.on_swarm()
        launch = self.hunt(supervisor)
        self.pass_s(7)
        self.failureResultOf(launch, NoCapacity)
        self.running.machines["node1"] = 4096
        launch = self.hunt(supervisor)
        self.pass_s(1)
        self.successResultOf(launch)

    def test_group_that_waits_longer_gets_the_next_room(self) -> None:
        self.swarm = FakeSwarm({"node1": 500})  # for one hunt
        supervisor = self.on_swarm()
        self.successResultOf(self.launched(supervisor, 1))
        for number in (2, 3):
            launch = self.launched(supervisor, number)
            self.pass_s(5)
            self.failureResultOf(launch, NoCapacity)
        self.running.end(self.running.running()[0])
        self.pass_s(6)
        for number in (4, 3):  # a newcomer, and a group that waits
            refusal = self.failureResultOf(self.launched(supervisor, number), NoCapacity)
            self.assertEqual(refusal.value.reason, "memory")
        self.successResultOf(self.launched(supervisor, 2))
        self.running.end(self.running.running()[0])
        self.pass_s(WAITS_S)  # group 3 no longer waits
        self.successResultOf(self.launched(supervisor, 4))

    def test_all_groups_that_ask_get_room_when_a_machine_joins(self) -> None:
        self.swarm = FakeSwarm({"node1": 10})
        supervisor = self.on_swarm()
        for number in (1, 2):
            launch = self.launched(supervisor, number)
            self.pass_s(5)
            self.failureResultOf(launch, NoCapacity)
        launches = [self.launched(supervisor, number) for number in (2, 1)]
        self.running.machines["node2"] = 1000
        self.pass_s(2)
        for launch in launches:
            self.successResultOf(launch)

    def test_group_for_a_trusted_machine_keeps_no_other_group_waiting(self) -> None:
        self.swarm = FakeSwarm({"node1": 500})
        supervisor = self.on_swarm()
        self.engine.trusted = frozenset((GameServerKind.HUNT,))
        self.running.machines["node1"] = 10
        launch = self.launched(supervisor, 1)
        self.pass_s(5)
        self.failureResultOf(launch, NoCapacity)
        self.running.machines["node1"] = 500
        self.engine.trusted = frozenset()
        self.pass_s(6)
        self.successResultOf(self.launched(supervisor, 2))

    def test_launch_that_gets_a_machine_at_its_removal_fails_for_good(self) -> None:
        class LateSwarm(FakeSwarm):
            def _delete(self, *named: Any) -> None:
                self.machines["node1"] = 4096
                self.step()
                self.step()
                super()._delete(*named)

        self.swarm = LateSwarm({"node1": 10})
        launch = self.hunt(self.on_swarm())
        self.pass_s(6)
        self.check_failure(launch, "may have started")

    def test_launch_whose_program_ends_at_once_fails_for_good(self) -> None:
        for end in ("the program", "the owner"):
            self.setUp()
            supervisor = self.on_swarm()
            launch = self.hunt(supervisor)
            self.running.step()
            self.running.step()
            if end == "the program":
                self.running.end(self.running.running()[0])
            else:
                [server_id] = supervisor.fleet.servers
                process = supervisor.process_of(server_id)
                assert process is not None
                process.kill("TERM")
            self.check_failure(launch, "exited before it was ready")

    def test_restarts_of_a_city_by_the_swarm_are_in_the_history(self) -> None:
        supervisor = self.on_swarm()
        self.ask(supervisor, CITY)
        self.pass_s(1)
        for code in (139, 139, 1):
            self.running.end(self.running.running()[0], code)
            self.pass_s(6)
        ends = [launch["how"] for launch in supervisor.history.newest()]
        self.assertEqual(ends, ["code 1", "signal SIGSEGV"])
        self.assertEqual(len(supervisor.records()), 1)
        self.engine.stop()
        again = self.on_swarm()
        self.pass_s(6)
        self.assertEqual(again.history.newest(), [])

    def test_leaving_machine_is_drained_when_its_last_hunt_ended(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.ask(supervisor, CITY)
        self.pass_s(1)
        self.running.leaving, self.running.availability = {"node1"}, {"node1": "pause"}
        self.pass_s(6)
        self.assertEqual(self.running.availability, {"node1": "pause"})
        hunt = next(task for task in self.running.running() if not task["persistent"])
        self.running.end(hunt)
        self.pass_s(6)
        self.assertEqual(self.running.availability, {"node1": "drain"})

    def test_machines_are_listed_with_their_hunts_and_drained(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.pass_s(1)
        browse = owners_browser(self, supervisor)
        expected = {
            "id": "node1",
            "name": "host of node1",
            "address": "203.0.113.9",
            "state": "ready",
            "memoryBytes": 1024 * MB,
            "reservedBytes": 400 * MB,
            "hunts": 1,
            "players": 1,
            "version": "20.10.24",
            "room": 1,
            "own": True,
            "reached": None,
        }
        self.assertEqual(browse("GET", "/gameservers/machines").json, {"machines": [expected]})
        for act, state in (("drain", "draining"), ("undrain", "ready")):
            page = browse("POST", "/gameservers/handle", json={"Act": act, "Id": "node1"})
            self.assertEqual(page.json, {"id": None})
            self.pass_s(1)
            [machine] = browse("GET", "/gameservers/machines").json["machines"]
            self.assertEqual(machine["state"], state)
        page = browse("POST", "/gameservers/handle", json={"Act": "drain", "Id": "node9"})
        self.assertEqual(page.status, 404)

    def test_hunts_that_end_together_are_removed_in_order_of_launch(self) -> None:
        """The order must not depend on hashes, because equal seeds must give equal simulations."""
        self.swarm = FakeSwarm({"node1": 4000})
        supervisor = self.on_swarm()
        for number in range(6):
            self.successResultOf(self.launched(supervisor, number))
        before = list(self.running.services)
        for task in self.running.running():
            self.running.end(task)
        with mock.patch.object(FakeSwarm, "_delete", autospec=True) as delete:
            self.pass_s(6)
        removed = [call.args[2] for call in delete.call_args_list]
        self.assertEqual(removed[:6], before)

    def test_room_for_hunts_is_limited_by_memory_and_by_cores(self) -> None:
        self.swarm = FakeSwarm({"node1": 4000})
        self.running.nano_cpus = 10**9  # for four hunts
        supervisor = self.on_swarm()
        self.successResultOf(self.launched(supervisor, 1))
        [machine] = supervisor.machines()
        self.assertEqual(machine["room"], 3)

    def test_agent_gets_the_image_and_a_trial_of_its_game_ports(self) -> None:
        supervisor = self.on_swarm()
        self.running.machines["node2"] = 1024
        self.pass_s(6)
        assert supervisor.trials is not None
        supervisor.trials.exchange = lambda *_, **nonces: succeed(nonces["sent"] != "")
        browse = owners_browser(self, supervisor)
        check = browse("POST", "/gameservers/check", json={"Node": "node2"}).json
        self.assertEqual((check["image"], check["trial"]["host"]), ("game:1", "203.0.113.9"))
        own, second = browse("GET", "/gameservers/machines").json["machines"]
        self.assertEqual((own["reached"], second["reached"]), (True, None))

    def test_city_of_a_lost_machine_gets_the_new_address(self) -> None:
        supervisor = self.on_swarm()
        city = self.ask(supervisor, CITY)
        self.pass_s(1)
        before = self.successResultOf(city)
        self.running.lose("node1")
        self.pass_s(6)
        nowhere = self.failureResultOf(self.ask(supervisor, CITY), NoCapacity)
        self.assertEqual(nowhere.value.reason, "memory")
        self.running.machines["node2"] = 1024
        self.pass_s(6)
        after = self.successResultOf(self.ask(supervisor, CITY))
        self.assertEqual((before.host, after.host), ("203.0.113.9", "10.0.0.2"))
        self.assertEqual(before.id, after.id)

    def test_restarted_deploy_server_adopts_running_game_servers(self) -> None:
        supervisor = self.on_swarm()
        first = self.hunt(supervisor)
        self.ask(supervisor, CITY)
        self.pass_s(1)
        self.engine.stop()
        again = self.on_swarm()
        self.assertEqual(
            {record["kind"] for record in again.records()},
            {GameServerKind.CITY.value, GameServerKind.HUNT.value},
        )
        repeated = self.successResultOf(self.hunt(again))
        self.assertEqual(repeated, self.successResultOf(first))
        self.assertEqual(len(self.running.starts), 2)

    def test_launch_that_a_crash_interrupted_is_removed(self) -> None:
        supervisor = self.on_swarm()
        self.running.machines["node1"] = 10
        self.hunt(supervisor)
        self.engine.stop()
        again = self.on_swarm()
        self.pass_s(2)
        self.assertEqual((again.records(), self.running.services), ([], {}))
        self.assertEqual(self.running.secrets, {})

    def test_launch_that_waited_for_room_at_a_restart_can_be_tried_again(self) -> None:
        supervisor = self.on_swarm()
        self.running.machines["node1"] = 10
        self.hunt(supervisor).addErrback(lambda why: why.trap(NoCapacity))
        self.pass_s(1)
        supervisor.hand_over()  # the metagame tries this match again
        self.engine.stop()
        supervisor = self.on_swarm()
        self.pass_s(2)
        self.running.machines["node1"] = 1024
        launch = self.hunt(supervisor)
        self.pass_s(1)
        self.successResultOf(launch)

    def test_launch_that_a_restart_interrupts_is_adopted_while_it_starts(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor).addErrback(lambda why: why.trap(NoCapacity))
        supervisor.hand_over()
        self.engine.stop()
        repeated = self.hunt(self.on_swarm())
        self.pass_s(2)
        self.assertEqual(self.successResultOf(repeated).host, "203.0.113.9")
        self.assertEqual(list(self.running.services), ["s1"])

    def test_adopted_hunt_that_does_not_start_is_removed(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor).addErrback(lambda why: why.trap(NoCapacity))
        self.running.step()
        self.engine.stop()
        self.running.unreachable.add("node1")
        again = self.on_swarm()
        self.pass_s(START_S - 5)
        self.assertEqual(len(again.records()), 1)
        self.pass_s(10)
        self.running.unreachable.clear()
        self.pass_s(3)
        self.assertEqual((again.records(), self.running.services), ([], {}))
        self.assertIn("did not start", again.history.newest()[0]["reason"])

    def test_machine_is_not_reported_down_when_docker_is_away(self) -> None:
        supervisor = self.on_swarm()

        def states() -> list[str]:
            return [machine["state"] for machine in supervisor.machines()]

        self.running.machines["node2"] = 1024
        self.running.lose("node2")
        self.pass_s(6)
        self.assertEqual(states(), ["ready", "down"])
        self.running.away = True
        self.pass_s(STALE_S + 5)
        self.assertEqual(states(), ["unknown", "unknown"])
        self.running.away = False
        self.pass_s(2)
        self.assertEqual(states(), ["ready", "down"])

    def test_before_the_first_listing_nothing_is_launched(self) -> None:
        supervisor = self.on_swarm()
        self.engine._is_listed = False
        self.failureResultOf(self.hunt(supervisor), NoCapacity)

    def test_launch_whose_reply_is_lost_fails_and_leaves_nothing(self) -> None:
        supervisor = self.on_swarm()
        self.running.loses_reply = True
        launch = self.hunt(supervisor)
        self.pass_s(3)
        self.failureResultOf(launch, Unlaunchable)
        self.pass_s(32)
        self.assertEqual((self.running.services, self.running.secrets), ({}, {}))

    def test_engine_that_is_away_ends_no_game_server(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.pass_s(1)
        self.running.away = True
        self.pass_s(20)
        self.assertEqual(len(supervisor.records()), 1)
        launch = self.hunt(supervisor, MATCH.replace("1", "2"))
        self.pass_s(1)
        self.running.away = False
        self.pass_s(3)
        self.failureResultOf(launch, Unlaunchable)
        self.assertEqual(len(supervisor.records()), 1)

    def test_malformed_reply_fails_the_launch_at_once(self) -> None:
        supervisor = self.on_swarm()
        self.running.garbled = True
        launch = self.hunt(supervisor)
        self.pass_s(1)
        self.failureResultOf(launch, Unlaunchable)
        self.running.garbled = False
        self.pass_s(32)
        self.assertEqual((self.engine.services, self.running.secrets), ({}, {}))

    def test_launch_carried_out_after_its_failure_is_removed(self) -> None:
        supervisor = self.on_swarm()
        self.running.is_late = True
        launch = self.hunt(supervisor)
        self.pass_s(0.5)
        self.failureResultOf(launch, Unlaunchable)
        self.pass_s(8)
        self.assertEqual((supervisor.records(), self.running.services), ([], {}))

    def test_launch_carried_out_a_minute_after_its_failure_is_removed(self) -> None:
        supervisor = self.on_swarm()
        self.running.is_late = True
        with mock.patch("simulation.swarm.LATE_STEPS", 600):
            launch = self.hunt(supervisor)
            self.pass_s(1)
        self.failureResultOf(launch, Unlaunchable)
        self.pass_s(57)
        self.assertEqual(self.engine.services, {})
        self.pass_s(8)
        self.assertEqual(self.running.late, [])
        self.assertEqual((supervisor.records(), self.running.services), ([], {}))

    def test_port_of_a_hunt_that_is_being_removed_is_in_use(self) -> None:
        supervisor = self.on_swarm()
        supervisor.fleet.first_port = 8775  # one hunt
        server = self.successResultOf(self.launched(supervisor, 1))
        process = supervisor.process_of(server.id)
        assert process is not None
        process.kill("TERM")
        self.pass_s(0.5)
        self.assertTrue(self.engine.uses(server.port))
        self.assertEqual(self.running.services, {})
        self.pass_s(3)
        self.assertFalse(self.engine.uses(server.port))

    def test_secret_that_stays_does_not_stop_other_launches(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.pass_s(1)
        self.running.secrets_in_use = set(self.running.secrets)
        self.running.end(self.running.running()[0])
        self.pass_s(6)
        launch = self.hunt(supervisor, f"{MATCH[:-1]}1")
        self.pass_s(1)
        self.successResultOf(launch)

    def test_service_with_a_damaged_label_is_removed(self) -> None:
        supervisor = self.on_swarm()
        self.ask(supervisor, CITY)
        self.pass_s(1)
        self.engine.stop()
        [service] = self.running.services.values()
        service["Spec"]["Labels"]["svc.server"] = '{"port": []}'
        again = self.on_swarm()
        self.assertEqual((again.records(), self.running.services), ([], {}))

    def test_events_cause_at_most_four_listings_a_second(self) -> None:
        self.on_swarm()
        before = self.running.listings
        for _ in range(400):
            self.engine.wake()
            self.clock.advance(0.01)
        self.assertLessEqual(self.running.listings - before, 17)

    def test_stop_ends_all_game_servers(self) -> None:
        supervisor = self.on_swarm()
        self.hunt(supervisor)
        self.ask(supervisor, CITY)
        self.pass_s(1)
        stopped = supervisor.stop()
        self.pass_s(3)
        self.successResultOf(stopped)
        self.assertEqual((self.running.services, self.running.tasks), ({}, []))

    def test_hunt_that_cannot_start_fails_with_the_reason(self) -> None:
        supervisor = self.on_swarm()
        launch = self.hunt(supervisor)
        self.clock.advance(0.1)
        self.running.end(self.running.tasks[0], error="No such image: game:1")
        self.pass_s(2)
        failure = self.failureResultOf(launch, Unlaunchable)
        self.assertIn("No such image", str(failure.value))


class ObserveTests(SwarmCase):
    def test_newest_task_decides(self) -> None:
        for kind, tasks, state in (
            (GameServerKind.HUNT, [], State.WAITING),
            (GameServerKind.HUNT, [task("pending", "")], State.WAITING),
            (GameServerKind.HUNT, [task("preparing")], State.STARTING),
            (GameServerKind.HUNT, [task("running")], State.RUNNING),
            (GameServerKind.HUNT, [task("complete")], State.ENDED),
            (GameServerKind.HUNT, [task("running", "node2")], State.ENDED),
            (GameServerKind.CITY, [task("running", "node2")], State.STARTING),
            (GameServerKind.CITY, [task("running", created="2"), task("failed")], State.RUNNING),
            (GameServerKind.CITY, [task("running"), task("failed", created="2")], State.ENDED),
        ):
            self.assertIs(observe(kind, tasks, WORKER).state, state)

    def test_label_of_a_machine_precedes_its_address(self) -> None:
        nodes = [
            {"ID": "a", "Spec": {"Labels": {"svc.address": "198.51.100.7"}}, "Status": {}},
            {"ID": "b", "Spec": {}, "Status": {"Addr": "10.0.0.2", "State": "down"}},
            {"ID": "c", "Spec": {}, "Status": {"Addr": "10.0.0.3"}},
            {
                "ID": "d",
                "Spec": {"Labels": {"svc.address": "not an address"}},
                "Status": {"Addr": "0.0.0.0"},
                "ManagerStatus": {"Addr": "10.0.0.4:2377"},
            },
        ]
        machines = Machines.parse(nodes, "c", "203.0.113.9")
        self.assertEqual(
            list(machines.addresses.values()),
            ["198.51.100.7", "10.0.0.2", "203.0.113.9", "10.0.0.4"],
        )
        self.assertEqual(machines.down, {"b"})
