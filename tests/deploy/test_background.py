"""Game servers that keep running in the background after their launcher has ended."""

import os
import signal
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.family import ProcessInfo
from svcserver.deploy.process import BACKGROUND_S, GameProcess


class Transport:
    pid: int | None = 7
    refuse: Exception | None = None

    def signalProcess(self, how: str) -> None:
        if self.refuse is not None:
            raise self.refuse

    def loseConnection(self) -> None:
        """Do nothing."""


@define(eq=False)
class FakeFamily:
    """Fake processes that run until the test or SIGKILL ends them."""

    living: list[ProcessInfo] = field(factory=list)
    on_port: int = 0
    seconds: float = 0.0
    signals: list[int] = field(factory=list)
    watched: dict[int, Callable[[], None]] = field(factory=dict)
    undying: bool = False
    deaf: bool = False  # no process receives a signal
    leader: int = 0

    def age(self) -> float:
        return self.seconds

    def add(self, pid: int) -> None:
        self.living.append(ProcessInfo(pid, "game", 1, pid, pid, pid, False))

    def members(self, max_age_s: float = 0.0) -> list[ProcessInfo]:
        return list(self.living)

    def holder(self) -> ProcessInfo | None:
        return next((process for process in self.living if process.pid == self.on_port), None)

    def signal(self, number: int) -> bool:
        self.signals.append(number)
        if self.deaf:
            return False
        if number == signal.SIGKILL and not self.undying:
            self.living.clear()
        return True

    def follow(self, process: ProcessInfo, ended: Callable[[], None]) -> Any:
        if process not in self.living:
            return None
        self.watched[process.pid] = ended

        class Watch:
            def close(self) -> None:
                """Do nothing."""

        return Watch()

    def end(self, pid: int) -> None:
        self.living = [process for process in self.living if process.pid != pid]
        if pid in self.watched:
            self.watched[pid]()


class BackgroundTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.ended: list[str] = []
        self.moved: list[int] = []
        self.clock, self.family = Clock(), FakeFamily()
        self.process = GameProcess(None, self.ended.append)
        family: Any = self.family
        self.process.family, self.process.moved = family, self.moved.append
        self.process.is_zombie = lambda pid: False
        self.transport = Transport()
        self.process.makeConnection(self.transport)

    def launcher_ends(self, code: int = 0) -> None:
        why: Exception = ProcessTerminated(code) if code else ProcessDone(0)
        self.transport.pid = None
        self.process.processExited(Failure(why))
        self.process.processEnded(Failure(why))

    def test_game_server_ends_with_its_last_process(self) -> None:
        self.launcher_ends(3)
        self.assertEqual((self.ended, self.process.alive), (["code 3"], False))

    def test_process_that_holds_the_port_is_watched_next(self) -> None:
        self.family.add(20)
        self.family.add(21)
        self.family.on_port = 21
        self.launcher_ends(1)
        self.assertEqual((self.moved, self.process.pid, self.process.alive), ([21], 21, True))
        self.assertTrue(self.process.has(20))
        self.family.end(21)
        self.assertEqual((self.ended, self.family.signals), (["code unknown"], [signal.SIGKILL]))

    def test_failed_launcher_leaves_no_process_without_the_port(self) -> None:
        self.family.add(20)
        self.launcher_ends(1)
        self.assertEqual((self.ended, self.moved), (["code 1"], []))
        self.assertEqual(self.family.signals, [signal.SIGKILL])

    def test_clean_launcher_leaves_time_to_open_the_port(self) -> None:
        self.family.add(20)
        self.launcher_ends()
        self.assertTrue(self.process.alive)
        self.process.check_port()
        self.family.add(21)
        self.family.on_port = 21
        self.process.check_port()
        self.assertEqual((self.moved, self.process.pid), ([20, 21], 21))
        self.family.seconds += BACKGROUND_S
        self.process.check_port()
        self.assertEqual((self.ended, self.family.signals), ([], []))

    def test_background_process_without_the_port_is_killed(self) -> None:
        self.family.add(20)
        self.family.seconds = 600.0  # the time that the launcher took
        self.launcher_ends()
        self.family.seconds += BACKGROUND_S - 1
        self.process.check_port()
        self.assertEqual((self.family.signals, self.process.alive), ([], True))
        self.family.seconds += 1
        self.process.check_port()
        self.assertEqual(self.family.signals, [signal.SIGKILL])
        self.family.watched[20]()
        self.assertEqual(self.ended, ["code unknown"])

    def test_server_that_listened_and_ended_cleanly_is_over(self) -> None:
        self.process.check_port()
        self.family.add(20)
        self.family.on_port = 20
        self.process.check_port()
        self.family.on_port = 0
        self.launcher_ends()
        self.assertEqual(self.ended, ["code 0"])

    def test_stop_waits_for_the_last_process(self) -> None:
        self.family.add(20)
        self.family.add(21)
        self.process.kill("TERM")
        self.launcher_ends()
        over = self.process.when_over()
        self.assertNoResult(over)
        self.assertFalse(self.process.alive)
        self.family.end(20)
        self.assertNoResult(over)
        self.family.end(21)
        self.successResultOf(over)
        self.assertEqual((self.ended, self.family.signals), (["code unknown"], [signal.SIGTERM]))

    def test_killed_process_is_waited_for(self) -> None:
        self.family.add(20)
        self.family.undying = True
        self.launcher_ends(1)
        self.assertEqual((self.ended, self.process.ending), ([], True))
        self.family.end(20)
        self.assertEqual(len(self.ended), 1)

    def test_process_that_cannot_be_signalled_is_not_over(self) -> None:
        self.family.add(20)
        self.launcher_ends()
        self.family.deaf = True
        self.transport.refuse = ProcessExitedAlready()
        self.process.group = 2**22 + 7
        self.patch(os, "killpg", lambda *sent: self.fail("this may be another group by now"))
        self.process.kill("KILL")
        self.assertFalse(self.process.over)
        self.family.end(20)
        self.assertEqual(self.ended, ["code unknown"])
