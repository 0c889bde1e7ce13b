"""A restore while systemd runs the host, or while the host's state is unknown."""

import os
from pathlib import Path

from svcserver.ctl import running
from svcserver.ctl.running import METAGAME, DatabaseUser
from tests.ctl.test_accounts import HostCase

UNIT = "svc-metagame.service"


class RunningTests(HostCase):
    def copy(self) -> Path:
        copy = self.folder / "copy.db"
        self.assertEqual(self.ctl("db", "backup", copy).status, 0)
        return copy

    def test_a_users_stop_of_a_unit_names_the_command_for_root(self) -> None:
        copy = self.copy()
        self.patch(running, "_holder", lambda _: DatabaseUser(METAGAME, os.getpid()))
        self.patch(running, "_lines", lambda *_: [f"0::/system.slice/{UNIT}"])
        self.patch(os, "geteuid", lambda: 1000)
        for words in ((), ("--stop",)):
            line = self.ctl("db", "restore", copy, *words).line
            self.assertRegex(line, f"Stop the service with: sudo systemctl stop {UNIT}$")

    def test_a_system_without_linux_locks_says_that_it_cannot_know(self) -> None:
        copy = self.copy()
        self.patch(running, "READS_LOCKS", False)
        ran = self.ctl("db", "restore", copy)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn("on this system, svcctl cannot check", ran.err)

    def test_stop_of_processes_that_return_ends_with_one_line(self) -> None:
        copy = self.copy()
        self.patch(running, "_holder", lambda _: DatabaseUser(METAGAME, os.getpid()))
        self.patch(running, "_end", lambda _: None)
        line = self.ctl("db", "restore", copy, "--stop").line
        self.assertRegex(line, f"although --stop has ended {running.MOST} processes")
