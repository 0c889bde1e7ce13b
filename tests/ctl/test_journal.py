"""Lines of systemd's journal in the bundle: limited in time and size, left out on failure."""

import json
import shutil
import subprocess
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import journal
from tests.support.proves import proves


class JournalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.commands: list[list[str]] = []
        self.patch(shutil, "which", lambda name: f"/bin/{name}")
        self.text, self.status = "", 0
        self.fault: Exception | None = None
        self.patch(subprocess, "run", self.run_)

    def run_(self, words: list[str], *, stdout: Any, timeout: float, **more: Any) -> Any:
        """Take the place of ``subprocess.run`` for journalctl; raise ``fault`` if it is set."""
        self.commands.append(words)
        if self.fault is not None:
            raise self.fault
        stdout.write(self.text.encode())
        return mock.Mock(returncode=self.status)

    def says(self, *rows: object) -> None:
        self.text = "".join(f"{json.dumps(row)}\n" for row in rows)

    @proves("svcctl bundle")
    def test_each_journal_line_begins_with_its_unit(self) -> None:
        self.says(
            {"MESSAGE": "gateway ready", "_SYSTEMD_UNIT": "svc-gateway.service"},
            {"MESSAGE": [104, 105, 255], "_SYSTEMD_UNIT": "svc-deploy.service"},
            {"MESSAGE": None},
            {"MESSAGE": [1e9]},
            ["no row"],
            7,
        )
        self.assertEqual(journal.last_lines(50), "[gateway] gateway ready\n[deploy] hi\ufffd\n")
        [command] = self.commands
        self.assertEqual(command[0], "/bin/journalctl")
        self.assertLessEqual({"--unit=svc-*", "--lines=50", "--output=json"}, {*command})

    def test_a_journal_that_cannot_be_read_gives_the_reason_if_any(self) -> None:
        self.fault = subprocess.TimeoutExpired("journalctl", 20)
        self.assertIn("did not answer", journal.last_lines(5))
        self.fault = FileNotFoundError(2, "No such file or directory")
        self.assertIn("journal cannot be read", journal.last_lines(5))
        self.fault, self.status = None, 1
        self.assertIn("may not read the journal", journal.last_lines(5))
        self.status = 0
        self.assertEqual(journal.last_lines(5), "")  # there are no such units
        self.patch(shutil, "which", lambda name: None)
        self.assertEqual(journal.last_lines(5), "")

    def test_a_flood_is_cut_at_its_beginning(self) -> None:
        self.patch(journal, "MOST", 200)
        self.says(*({"MESSAGE": f"line {number}"} for number in range(100)))
        lines = journal.last_lines(100).splitlines()
        self.assertEqual(lines[-1], "line 99")
        self.assertLess(len(lines), 12)
