"""Both engines that run game servers, under random requests, ends, faults and restarts."""

from abc import abstractmethod
from typing import Any
from unittest import mock

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from simulation.swarm import FakeSwarm
from svcserver.deploy.fleet import Fleet, GameServer, NoCapacity
from svcserver.deploy.hunts import HuntTable, Unlaunchable
from svcserver.deploy.launch_history import EndedMatches
from svcserver.deploy.orders import Program
from svcserver.deploy.process import GameProcess
from svcserver.deploy.readiness import Readiness
from svcserver.deploy.supervisor import Supervisor
from svcserver.deploy.swarm import SwarmEngine
from svcserver.deploy.swarm_setup import place_on
from tests.deploy.supervised import CITY, DOJO, HUNT, FakeSpawner

FIRST, LAST = 9000, 9005  # four hunts
TABLE = HuntTable.load("/Game/Maps/city/a_01_persistent")
MATCHES = [f"1b4e28ba-2fa1-41d2-883f-0016d3cca42{number}" for number in range(6)]


class EngineMachine(RuleBasedStateMachine):
    """Random events on a supervisor; a subclass defines how its engine runs game servers."""

    host: str | None = "203.0.113.9"

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.answers: list[tuple[str, GameServer | Failure]] = []
        self.launches: list[Deferred[Any]] = []
        self.patch = mock.patch.object(
            GameProcess, "alive", property(lambda process: not process.over)
        )
        self.patch.start()
        self.supervisor = self.begin()

    def begin(self) -> Supervisor:
        return Supervisor(
            self.clock,
            self.clock.seconds,
            self.engine(),
            Program("/srv/game", launch_keys=True),
            TABLE,
            Fleet(FIRST, LAST),
            self.host,
            lambda port: False,
            Readiness(self.clock),
        )

    @abstractmethod
    def engine(self) -> Any:
        """Return a new engine, which finds the programs that still run from an earlier engine."""

    @abstractmethod
    def ports(self) -> list[str]:
        """Return the ports of all programs that run."""

    @abstractmethod
    def end_one(self, choice: int, code: int) -> None:
        """End one of the programs, with ``code`` as its exit code."""

    def end_match(self, match: str) -> None:
        """End the program of a match's hunt, without an error."""
        self.end_one(0, 0)

    def step(self) -> None:
        """Let the engine work."""

    def launch(self, request: Any, match: str) -> None:
        launch = Deferred.fromCoroutine(self.supervisor.hand_out(request, match))
        launch.addBoth(lambda answer: self.on_answer(match, answer))
        self.launches.append(launch)

    def on_answer(self, match: str, answer: GameServer | Failure) -> None:
        self.answers.append((match, answer))

    @rule(match=st.sampled_from(MATCHES), tenths=st.integers(0, 12))
    def hunt(self, match: str, tenths: int) -> None:
        self.launch(HUNT, match)
        self.wait(tenths)

    @rule(request=st.sampled_from([CITY, DOJO]))
    def enter(self, request: Any) -> None:
        self.launch(request, "")

    @rule(choice=st.integers(0, 20), code=st.sampled_from([0, 1]))
    def end(self, choice: int, code: int) -> None:
        self.end_one(choice, code)

    @rule(choice=st.integers(0, 20), how=st.sampled_from(["TERM", "KILL"]))
    def kill(self, choice: int, how: str) -> None:
        servers = sorted(self.supervisor.fleet.servers)
        if servers:
            self.end_server(servers[choice % len(servers)], how)

    def end_server(self, server_id: str, how: str) -> None:
        """Let the deploy server end one of its game servers."""
        process = self.supervisor.process_of(server_id)
        assert process is not None
        process.kill(how)

    @rule(
        choice=st.integers(0, 20),
        how=st.sampled_from(["", "TERM", "KILL"]),
        tenths=st.integers(0, 12),
        match=st.sampled_from(MATCHES),
    )
    def hunt_soon_after_an_end(self, choice: int, how: str, tenths: int, match: str) -> None:
        """End a hunt; shortly afterwards, launch a hunt for ``match``.

        Then launch another hunt for the match whose hunt was ended.
        """
        servers = self.supervisor.fleet.servers.values()
        hunts = sorted((server.launch.match_id, server.id) for server in servers)
        hunts = [hunt for hunt in hunts if hunt[0]]
        if hunts:
            again, server_id = hunts[choice % len(hunts)]
            if how:
                self.end_server(server_id, how)
            else:
                self.end_match(again)
            self.wait(tenths)
            self.hunt(match, 0)
            self.hunt(again, 10)

    @rule(tenths=st.integers(1, 80))
    def wait(self, tenths: int) -> None:
        for _ in range(tenths):
            self.step()
            self.clock.advance(0.1)

    @rule()
    def watch(self) -> None:
        self.supervisor.watch()

    @invariant()
    def no_two_programs_have_one_port(self) -> None:
        ports = self.ports()
        assert len(ports) == len(set(ports)), ports

    @invariant()
    def every_failure_is_documented(self) -> None:
        for _, answer in self.answers:
            if isinstance(answer, Failure):
                answer.trap(Unlaunchable, NoCapacity)

    def teardown(self) -> None:
        try:
            self.settle()
            assert all(launch.called for launch in self.launches), "a request waits for ever"
            assert sorted(map(str, self.listed())) == sorted(self.ports())
            stopped = self.supervisor.stop()
            self.wait(300)
            assert stopped.called
            assert self.ports() == []
            assert self.supervisor.fleet.servers == {}
        finally:
            self.patch.stop()

    def listed(self) -> list[int]:
        """Return the ports of the game servers that the supervisor lists."""
        return [record["port"] for record in self.supervisor.records()]

    def settle(self) -> None:
        self.wait(400)


class ProcessMachine(EngineMachine):
    def engine(self) -> Any:
        self.spawner = FakeSpawner()
        return self.spawner

    def _running(self) -> list[Any]:
        return [child for child in self.spawner.children if not child.process.over]

    def ports(self) -> list[str]:
        commands = zip(self.spawner.children, self.spawner.commands, strict=True)
        return [words[2] for child, words in commands if not child.process.over]

    def end_one(self, choice: int, code: int) -> None:
        running = self._running()
        if running:
            running[choice % len(running)].end(code)


class SwarmMachine(EngineMachine):
    """Three machines with room for two game servers each; the first machine is never lost."""

    host = None

    def __init__(self) -> None:
        self.handed_out: set[str] = set()  # ids of the services of hunts
        self.ids = {match: match for match in MATCHES}  # the current match of each group
        self.ended = EndedMatches()  # in place of the file of ended matches
        self.may_end: set[str] = set()  # game servers that the test or a fault ends
        self.starts_before: dict[str, int] = {}  # by match, at the beginning of its newest launch
        self.started_twice: list[str] = []
        super().__init__()
        self.wait(1)

    def engine(self) -> Any:
        if not hasattr(self, "swarm"):
            self.swarm = FakeSwarm({"node1": 1000, "node2": 1000, "node3": 1000})
        api: Any = self.swarm
        self.swarm_engine = SwarmEngine(
            self.clock,
            api,
            "127.0.0.1:61001",
            "game:1",
            "203.0.113.9",
            lambda kind: 500,
            ended=self.ended,
        )
        return self.swarm_engine

    def begin(self) -> Supervisor:
        supervisor = super().begin()
        place_on(supervisor, self.swarm_engine)
        self.swarm_engine.begin()
        return supervisor

    def on_answer(self, match: str, answer: GameServer | Failure) -> None:
        super().on_answer(match, answer)
        error = answer.value if isinstance(answer, Failure) else None
        is_refused = isinstance(error, NoCapacity) and error.reason == "memory"
        if is_refused and self.starts(match) > self.starts_before[match]:
            self.started_twice.append(match)
        if isinstance(error, Unlaunchable) and match in self.ids.values():
            self.begin_match(match)
        if isinstance(answer, GameServer):
            running = [task for task in self.swarm.running() if task["name"] == f"svc-{match}"]
            self.handed_out |= {task["ServiceID"] for task in running}

    def begin_match(self, match: str) -> None:
        """Give the group of a failed match a new match, as the metagame does."""
        number = int(match[:8], 16) + 1
        self.ids[f"{MATCHES[0][:8]}{match[8:]}"] = f"{number:08x}{match[8:]}"

    def launch(self, request: Any, match: str) -> None:
        match = self.ids.get(match, match)
        self.starts_before[match] = self.starts(match)
        super().launch(request, match)

    def starts(self, match: str) -> int:
        return self.swarm.starts.count(f"svc-{match}")

    def step(self) -> None:
        self.swarm.step()

    def ports(self) -> list[str]:
        return [task["port"] for task in self.swarm.running()]

    def end_one(self, choice: int, code: int) -> None:
        running = [task for task in self.swarm.running() if not task["persistent"]]
        if running:
            task = running[choice % len(running)]
            self.may_end.add(task["ServiceID"])
            self.swarm.end(task, code)

    def end_match(self, match: str) -> None:
        for task in self.swarm.running():
            if task["name"] == f"svc-{match}":
                self.may_end.add(task["ServiceID"])
                self.swarm.end(task)

    def end_server(self, server_id: str, how: str) -> None:
        name = f"svc-{self.supervisor.fleet.servers[server_id].launch.match_id}"
        self.may_end |= {task["ServiceID"] for task in self.swarm.tasks if task["name"] == name}
        super().end_server(server_id, how)

    @rule(tenths=st.integers(1, 80), match=st.sampled_from(MATCHES))
    def engine_away(self, tenths: int, match: str) -> None:
        self.swarm.away = True
        self.hunt(match, tenths)
        self.swarm.away = False
        self.wait(20)

    @rule(
        match=st.sampled_from(MATCHES),
        following=st.sampled_from(MATCHES),
        is_late=st.booleans(),
        tenths=st.integers(0, 12),
    )
    def lose_reply(self, match: str, following: str, is_late: bool, tenths: int) -> None:
        """Launch a hunt and lose the reply; shortly afterwards, request the same launch again.

        Then launch the hunt ``following``. If ``is_late`` is true, the engine carries out the first
        launch later.
        """
        self.swarm.loses_reply, self.swarm.is_late = not is_late, is_late
        self.hunt(match, tenths)
        self.hunt(match, tenths)
        self.hunt(following, 20)

    @rule(node=st.sampled_from(["node2", "node3"]), match=st.sampled_from(MATCHES))
    def lose_machine_in_a_launch(self, node: str, match: str) -> None:
        self.hunt(match, 1)
        self.lose_machine(node)
        self.wait(20)

    @rule(node=st.sampled_from(["node2", "node3"]))
    def lose_machine(self, node: str) -> None:
        if node not in self.swarm.down:
            tasks = [task for task in self.swarm.tasks if task["NodeID"] == node]
            self.may_end |= {task["ServiceID"] for task in tasks}
            self.swarm.lose(node)

    @rule(matches=st.lists(st.sampled_from(MATCHES), max_size=3))
    def deploy_server_dies(self, matches: list[str]) -> None:
        """Kill the deploy server and start its successor; waiting requests get no answer."""
        self.swarm_engine.stop()
        self.launches = [launch for launch in self.launches if launch.called]
        self.clock = Clock()
        self.supervisor = self.begin()
        for match in matches:
            self.launch(HUNT, match)
        self.wait(5)

    @invariant()
    def hunts_run_on_until_a_fault_ends_them(self) -> None:
        for task in self.swarm.tasks:
            if task["ServiceID"] in self.handed_out - self.may_end:
                assert task["DesiredState"] == "running", task

    @invariant()
    def launches_without_room_have_started_nothing(self) -> None:
        """Check that no match has got two hunts.

        The metagame repeats a launch that was refused for lack of room, so the first launch must
        have started nothing.
        """
        assert self.started_twice == []

    @invariant()
    def no_hunt_is_started_twice(self) -> None:
        hunts = [name for name in self.swarm.starts if name not in ("svc-city", "svc-dojo")]
        assert len(hunts) == len(set(hunts)), hunts

    @invariant()
    def no_memory_is_overcommitted(self) -> None:
        assert all(self.swarm.free(node) >= 0 for node in self.swarm.machines)

    @invariant()
    def no_hunt_runs_twice(self) -> None:
        running = [task["name"] for task in self.swarm.running()]
        assert len(running) == len(set(running)), running

    def listed(self) -> list[int]:
        """Return the listed ports, except those of game servers that wait for a machine."""
        servers = self.supervisor.fleet.servers
        records = self.supervisor.records()
        return [record["port"] for record in records if servers[record["id"]].host]

    def settle(self) -> None:
        super().settle()
        names = {service["Spec"]["Name"] for service in self.swarm.services.values()}
        assert names == set(self.swarm.secrets), "a secret without a service"


# without the search for the shortest example of a failure, which can take five minutes
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
ProcessMachineTests = ProcessMachine.TestCase
ProcessMachineTests.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, phases=PHASES
)
SwarmMachineTests = SwarmMachine.TestCase
SwarmMachineTests.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, phases=PHASES
)
