"""Game servers that an earlier deploy server left behind: found by their mark, and ended."""

from __future__ import annotations

import os
import signal

from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.orphans import MARK, end_left_over, mark
from tests.ctl.command import nowhere


class OrphanTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.processes = nowhere(self)
        self.killed: list[tuple[int, int]] = []
        self.patch(os, "kill", self.kill)

    def kill(self, pid: int, how: int) -> None:
        if pid == 44:
            raise ProcessLookupError("gone")
        self.killed.append((pid, how))

    def add(self, name: str, environ: str) -> None:
        folder = self.processes / name
        folder.mkdir(parents=True)
        folder.joinpath("environ").write_bytes(environ.encode())

    def test_only_what_bears_the_mark_of_this_address_is_ended(self) -> None:
        self.assertEqual(mark("127.0.0.1", 61001), {MARK: "127.0.0.1:61001"})
        mine = f"PATH=/bin\0{MARK}=127.0.0.1:61001\0"
        self.add("41", mine)
        self.add("42", f"{MARK}=127.0.0.1:6100\0")
        self.add("43", f"X={MARK}=127.0.0.1:61001\0")
        self.add("44", mine)
        self.add(str(os.getpid()), mine)
        self.add("self", mine)
        (self.processes / "45").mkdir()
        self.assertEqual(end_left_over("127.0.0.1", 61001, self.processes), 1)
        self.assertEqual(self.killed, [(41, signal.SIGKILL)])

    def test_a_system_without_such_a_list_ends_nothing(self) -> None:
        self.assertEqual(end_left_over("127.0.0.1", 61001, self.processes / "none"), 0)
