"""Ending a game with all its children, on each kind of system."""

from __future__ import annotations

import signal
from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.playing import ProcessGroup, ProcessTree


@define
class Started:
    """A fake ``subprocess.Popen``."""

    pid: int = 4711
    calls: list[Any] = field(factory=list)

    def poll(self) -> int | None:
        return None

    def kill(self) -> None:
        self.calls.append("kill")


class EndingTests(SynchronousTestCase):
    def test_posix_signals_go_to_the_whole_group(self) -> None:
        started: Any = Started()
        group = ProcessGroup(started, lambda *call: started.calls.append(call))
        group.terminate()
        group.kill()
        self.assertTrue(group.leaves())
        numbers = (signal.SIGTERM, signal.SIGKILL, 0)
        self.assertEqual(started.calls, [(4711, number) for number in numbers])

    def test_signal_to_an_ended_group_is_no_error(self) -> None:
        for why in (ProcessLookupError, PermissionError):

            def refuse(pid: int, number: int, why: type[OSError] = why) -> None:
                raise why

            started: Any = Started()
            group = ProcessGroup(started, refuse)
            group.terminate()
            group.kill()
            self.assertFalse(group.leaves())

    def test_windows_tree_is_asked_to_close_and_then_killed(self) -> None:
        started: Any = Started()
        tree = ProcessTree(started, r"D:\Windows", started.calls.append)
        tree.terminate()
        tree.kill()
        program = r"D:\Windows\System32\taskkill.exe"
        self.assertEqual(
            started.calls,
            [[program, "/T", "/PID", "4711"], [program, "/T", "/F", "/PID", "4711"]],
        )
        self.assertFalse(tree.leaves())

    def test_windows_without_taskkill_kills_the_first_process(self) -> None:
        def missing(_: object) -> None:
            raise FileNotFoundError

        started: Any = Started()
        ProcessTree(started, r"C:\Windows", missing).terminate()
        self.assertEqual(started.calls, ["kill"])
