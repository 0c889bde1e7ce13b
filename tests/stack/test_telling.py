"""The children's lines on their way to whatever keeps them."""

from __future__ import annotations

import errno
import io
import sys

from twisted.trial.unittest import SynchronousTestCase

from svcserver.stack.service import Teller


class Disk(io.StringIO):
    """Takes lines while there is room."""

    full = False

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


class TellerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = Disk()
        self.patch(sys, "__stdout__", self.disk)
        self.tell = Teller()

    def test_lines_are_passed_on_as_they_come(self) -> None:
        self.tell("[deploy] one\n")
        self.tell("[deploy] two\n")
        self.assertEqual(self.disk.getvalue(), "[deploy] one\n[deploy] two\n")

    def test_a_full_disk_ends_no_child_and_what_was_lost_is_counted(self) -> None:
        self.disk.full = True
        for _ in range(3):
            self.tell("[deploy] lost\n")
        self.disk.full = False
        self.tell("[deploy] again\n")
        self.tell("[deploy] more\n")
        self.assertEqual(
            self.disk.getvalue(),
            "[stack] 3 lines could not be written\n[deploy] again\n[deploy] more\n",
        )

    def test_without_an_output_there_is_nothing_to_do(self) -> None:
        self.patch(sys, "__stdout__", None)
        self.tell("[deploy] x\n")
