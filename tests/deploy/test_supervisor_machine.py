"""A supervisor during random requests, cancellations, exits and failed starts."""

from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from svcserver.deploy.fleet import Fleet, GameServer, MemoryGuard, NoCapacity
from svcserver.deploy.hunts import GameServerKind, HuntTable, Unlaunchable
from svcserver.deploy.orders import Program
from svcserver.deploy.process import GameProcess
from svcserver.deploy.readiness import Readiness
from svcserver.deploy.supervisor import Supervisor
from tests.deploy.supervised import CITY, DOJO, HUNT, TUTORIAL, FakeSpawner, FakeTransport
from tests.support.proves import proves

FIRST, LAST = 9000, 9004  # three hunts
TABLE = HuntTable.load("/Game/Maps/city/a_01_persistent")


@proves("no orphan, no leak")
class SupervisorMachine(RuleBasedStateMachine):
    """Random events on a supervisor.

    Launches are at least a second apart, and hunts must run for at least half a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.spawner = Clock(), FakeSpawner()
        self.supervisor = Supervisor(
            self.clock,
            self.clock.seconds,
            self.spawner,
            Program("/srv/game"),
            TABLE,
            Fleet(FIRST, LAST),
            "203.0.113.9",
            lambda port: False,
            Readiness(self.clock, None, lambda: 0.5),
            MemoryGuard(0, 10, 10, 5.0, lambda: 45.0),
            spacing_s=1.0,
        )
        self.launches: list[Deferred[GameServer]] = []
        self.answers: list[GameServer | Failure] = []
        self.alive = mock.patch.object(
            GameProcess, "alive", property(lambda process: not process.over)
        )
        self.alive.start()

    def living(self) -> list[FakeTransport]:
        return [child for child in self.spawner.children if not child.process.over]

    def ports(self) -> list[str]:
        commands = zip(self.spawner.children, self.spawner.commands, strict=True)
        return [words[2] for child, words in commands if not child.process.over]

    @rule(request=st.sampled_from([CITY, DOJO, HUNT, TUTORIAL]))
    def ask(self, request: object) -> None:
        launch = Deferred.fromCoroutine(self.supervisor.hand_out(request))  # type: ignore[arg-type]
        launch.addBoth(self.answers.append)
        self.launches.append(launch)

    @rule(choice=st.integers(0, 20))
    def leave(self, choice: int) -> None:
        waiting = [launch for launch in self.launches if not launch.called]
        if waiting:
            waiting[choice % len(waiting)].cancel()

    @rule(choice=st.integers(0, 20), code=st.sampled_from([0, 1]))
    def end(self, choice: int, code: int) -> None:
        living = self.living()
        if living:
            living[choice % len(living)].end(code)

    @rule(seconds=st.floats(0.05, 3.0))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(broken=st.booleans())
    def disk(self, broken: bool) -> None:
        self.spawner.broken = FileNotFoundError("gone") if broken else None

    @rule()
    def watch(self) -> None:
        self.supervisor.watch()

    @invariant()
    def every_living_server_has_a_port_of_its_own_and_is_listed(self) -> None:
        ports = self.ports()
        assert len(ports) == len(set(ports))
        listed = sorted(str(record["port"]) for record in self.supervisor.records())
        assert listed == sorted(ports)

    @invariant()
    def nobody_fails_but_in_a_documented_way(self) -> None:
        for answer in self.answers:
            if isinstance(answer, Failure):
                answer.trap(Unlaunchable, NoCapacity, CancelledError)

    def teardown(self) -> None:
        try:
            self.spawner.broken = None
            for _ in range(len(self.launches) + 5):
                self.clock.advance(1.0)
            assert all(launch.called for launch in self.launches), "somebody waits for ever"
            assert len(self.answers) == len(self.launches)
            for child in self.living():
                child.end()
            fleet = self.supervisor.fleet
            assert (fleet.servers, fleet._held, self.supervisor._processes) == ({}, set(), {})
            assert self.clock.getDelayedCalls() == []
            self.clock.advance(10)  # every reservation of memory is over
            self.supervisor.guard = None
            self.clock.advance(1)
            for kind in (GameServerKind.CITY, GameServerKind.DOJO, *[GameServerKind.HUNT] * 3):
                fleet.hold(kind, lambda port: False)
        finally:
            self.alive.stop()


SupervisorMachineTests = SupervisorMachine.TestCase
SupervisorMachineTests.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
