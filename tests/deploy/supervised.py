"""A supervisor with fake game servers, reactor, processes and clock."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.deploy.hunts import HuntTable
from svcserver.deploy.orders import Order, Program
from svcserver.deploy.process import GameProcess
from svcserver.deploy.readiness import Readiness
from svcserver.deploy.service import front_door
from svcserver.deploy.supervisor import Supervisor
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.machine import machine_headers
from svcserver.kernel.secrets import Secret
from svcserver.kernel.system import epoch
from tests.support.browser import Browser, Page

CITY = LaunchRequest("CITY", "", "")
HUNT = LaunchRequest("ISLAND", "", "CR19_PlayerHunt_Escalation_Randall_Easy", ("UID-a",))
TUTORIAL = LaunchRequest(
    "ISLAND", "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=", ""
)
DOJO = LaunchRequest("SHARED", "", "ShatteredIsles_TrainingDojo")


SIGNING_KEY = "the host's signing key"


class OwnersBrowser(Browser):
    """A client that sends a machine ticket with each request."""

    def __call__(self, method: str, path: str, **sent: Any) -> Page:
        ticket = machine_headers(SIGNING_KEY, "svc-metagame", method, path, epoch())
        headers = {**ticket, **(sent.pop("headers", None) or {})}
        return super().__call__(method, path, headers=headers, **sent)


def owners_browser(test: SynchronousTestCase, supervisor: Supervisor) -> Browser:
    return OwnersBrowser(test, front_door(supervisor, secrets=lambda: [SIGNING_KEY]))


class FakeTransport:
    """A fake child process that the test ends."""

    def __init__(self, process: GameProcess, pid: int) -> None:
        self.process, self.pid = process, pid

    def loseConnection(self) -> None:
        """Do nothing: ``end`` closes the pipes."""

    def end(self, code: int = 0, by: int | None = None) -> None:
        why: Exception = (
            ProcessDone(0) if code == 0 and by is None else ProcessTerminated(code or None, by)
        )
        self.process.processExited(Failure(why))
        self.process.processEnded(Failure(why))


class FakeSpawner:
    """A fake spawner that records starts; ``kills`` records signals.

    Unless ``executes`` is true, the test decides the result of each ``exec`` call.
    """

    executes = True

    def __init__(self) -> None:
        self.children: list[FakeTransport] = []
        self.commands: list[list[str]] = []
        self.extra: list[dict[str, str]] = []
        self.broken: OSError | None = None
        self.kills: list[str] = []

    def start(self, process: GameProcess, order: Order) -> int:
        command, extra = order.command(), dict(order.environ)
        if self.broken is not None:
            raise self.broken
        child = FakeTransport(process, 1000 + len(self.children))
        process.makeConnection(child)
        if not self.executes:
            process.begin_exec()
        process.kill = lambda how: self._kill(child, how)  # type: ignore[method-assign]
        self.children.append(child)
        self.commands.append(command)
        self.extra.append(extra)
        return child.pid

    def _kill(self, child: FakeTransport, how: str) -> None:
        self.kills.append(how)
        if not child.process.over and (how == "KILL" or not getattr(child, "deaf", False)):
            child.end(by=signal.SIGKILL if how == "KILL" else signal.SIGTERM)


class SupervisorCase(SynchronousTestCase):
    def make(
        self,
        ready_folder: Path | None = None,
        grace: Callable[[], float] = lambda: 0.0,
        **changes: Any,
    ) -> Supervisor:
        self.clock, self.spawner = Clock(), FakeSpawner()
        parts: dict[str, Any] = {
            "clock": self.clock,
            "wall_clock": self.clock.seconds,
            "engine": self.spawner,
            "program": Program("/srv/game", key=Secret("hush")),
            "table": HuntTable.load("/Game/Maps/city/a_01_persistent"),
            "fleet": Fleet(8770, 8777),
            "host": "203.0.113.9",
            "is_bound": lambda port: False,
            "readiness": Readiness(self.clock, ready_folder, grace),
        }
        supervisor = Supervisor(**(parts | changes))
        # a fake child has no /proc entry, so its protocol decides whether it lives
        self.patch(GameProcess, "alive", property(lambda process: not process.over))
        return supervisor

    def ask(self, supervisor: Supervisor, request: LaunchRequest) -> Deferred[GameServer]:
        return Deferred.fromCoroutine(supervisor.hand_out(request))
