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

    def test_the_bare_name_where_the_shell_finds_ours(self) -> None:
        self.path(BESIDE)
        self.assertEqual(program("svcctl"), "svcctl")

    def test_the_whole_path_where_it_finds_none_or_another(self) -> None:
        folder = nowhere(self)
        folder.mkdir()
        (folder / "svcctl").write_text("#!/bin/sh\n")
        (folder / "svcctl").chmod(0o755)
        for folders in ([], [folder], [folder, BESIDE]):
            self.path(*folders)
            self.assertEqual(program("svcctl"), str(BESIDE / "svcctl"))

    def test_the_name_of_what_does_not_lie_beside_us(self) -> None:
        self.assertEqual(program("svc-nothing"), "svc-nothing")


class VersionTests(SynchronousTestCase):
    def test_the_version_option_prints_the_version(self) -> None:
        self.assertRegex(svcctl("--version").out, r"^svcserver, version \d+\.\d+\.\d+\n$")
