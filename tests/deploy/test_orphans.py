"""Processes that an earlier deploy server left behind: found by their mark, and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import orphans
from svcserver.deploy.orphans import MARK, end_left_over, mark, wait_for
from tests.ctl.command import nowhere
from tests.support.proves import proves


class OrphanTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.processes = nowhere(self)
        self.killed: list[tuple[int, int]] = []
        self.waited: list[int] = []
        self.patch(os, "kill", self.kill)
        self.patch(orphans, "wait_for", self.waited.extend)

    def kill(self, pid: int, how: int) -> None:
        if pid == 44:
            raise ProcessLookupError("gone")
        self.killed.append((pid, how))

    def add(self, name: str, environ: str, network: str = "") -> None:
        folder = self.processes / name
        folder.mkdir(parents=True)
        folder.joinpath("environ").write_bytes(environ.encode())
        if network:
            (folder / "ns").mkdir()
            (folder / "ns" / "net").symlink_to(network)

    @proves("no orphan, no leak")
    def test_only_processes_with_this_address_are_killed(self) -> None:
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
        self.assertEqual(self.waited, [41])

    @proves("no orphan, no leak")
    def test_processes_in_another_network_are_spared(self) -> None:
        mine = f"{MARK}=127.0.0.1:61001"
        self.add("self", mine, "net:[1]")
        self.add("41", mine, "net:[1]")
        self.add("42", mine, "net:[2]")
        self.add("43", mine)  # it is just ending
        end_left_over("127.0.0.1", 61001, self.processes)
        self.assertEqual({pid for pid, _ in self.killed}, {41, 43})

    def test_system_without_a_process_list_kills_nothing(self) -> None:
        self.assertEqual(end_left_over("127.0.0.1", 61001, self.processes / "none"), 0)


class WaitTests(SynchronousTestCase):
    @pytest.mark.live
    @proves("no orphan, no leak")
    def test_killed_process_has_ended_after_the_wait(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            child.kill()
            wait_for([child.pid])
            self.assertEqual(child.poll(), -signal.SIGKILL)  # asked once
            wait_for([child.pid])  # gone
        finally:
            child.communicate()

    def test_wait_for_a_process_that_never_ends_stops(self) -> None:
        self.patch(orphans, "ENDING_S", 0.01)
        with capturedLogs() as events:
            wait_for([os.getpid()])
        self.assertEqual([event["log_level"].name for event in events], ["warn"])
