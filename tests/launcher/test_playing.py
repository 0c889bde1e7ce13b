"""How a game is ended with all that it has started, on each kind of system."""

from __future__ import annotations

import signal
from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.playing import ProcessGroup, ProcessTree


@define
class Started:
    """What ``subprocess.Popen`` gives."""

    pid: int = 4711
    told: list[Any] = field(factory=list)

    def poll(self) -> int | None:
        return None

    def kill(self) -> None:
        self.told.append("kill")


class EndingTests(SynchronousTestCase):
    def test_on_posix_the_whole_group_is_told(self) -> None:
        started: Any = Started()
        group = ProcessGroup(started, lambda *said: started.told.append(said))
        group.terminate()
        group.kill()
        self.assertTrue(group.leaves())
        numbers = (signal.SIGTERM, signal.SIGKILL, 0)
        self.assertEqual(started.told, [(4711, one) for one in numbers])

    def test_a_group_that_is_gone_is_told_nothing(self) -> None:
        for why in (ProcessLookupError, PermissionError):

            def refuse(pid: int, number: int, why: type[OSError] = why) -> None:
                raise why

            started: Any = Started()
            group = ProcessGroup(started, refuse)
            group.terminate()
            group.kill()
            self.assertFalse(group.leaves())

    def test_on_windows_the_tree_is_asked_to_close_and_then_ended(self) -> None:
        started: Any = Started()
        tree = ProcessTree(started, r"D:\Windows", started.told.append)
        tree.terminate()
        tree.kill()
        program = r"D:\Windows\System32\taskkill.exe"
        self.assertEqual(
            started.told,
            [[program, "/T", "/PID", "4711"], [program, "/T", "/F", "/PID", "4711"]],
        )
        self.assertFalse(tree.leaves())

    def test_a_windows_without_that_program_ends_the_first_process(self) -> None:
        def missing(_: object) -> None:
            raise FileNotFoundError

        started: Any = Started()
        ProcessTree(started, r"C:\Windows", missing).terminate()
        self.assertEqual(started.told, ["kill"])
