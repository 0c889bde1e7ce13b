"""Commands that are shown to an owner can be pasted into the owner's shell."""

import os
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.output import program
from tests.ctl.command import nowhere, svcctl

BESIDE = Path(sys.executable).parent


class ProgramTests(SynchronousTestCase):
    def path(self, *folders: Path) -> None:
        before = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        os.environ["PATH"] = os.pathsep.join(map(str, folders))

    def test_a_program_that_the_shell_finds_is_given_by_its_bare_name(self) -> None:
        self.path(BESIDE)
        self.assertEqual(program("svcctl"), "svcctl")

    def test_a_program_that_the_shell_does_not_find_is_given_by_its_path(self) -> None:
        folder = nowhere(self)
        folder.mkdir()
        (folder / "svcctl").write_text("#!/bin/sh\n")
        (folder / "svcctl").chmod(0o755)
        for folders in ([], [folder], [folder, BESIDE]):
            self.path(*folders)
            self.assertEqual(program("svcctl"), str(BESIDE / "svcctl"))

    def test_an_unknown_program_is_given_by_its_bare_name(self) -> None:
        self.assertEqual(program("svc-nothing"), "svc-nothing")


class VersionTests(SynchronousTestCase):
    def test_the_version_option_prints_the_version(self) -> None:
        self.assertRegex(svcctl("--version").out, r"^svcserver, version \d+\.\d+\.\d+\n$")
