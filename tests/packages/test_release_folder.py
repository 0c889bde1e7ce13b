"""Where packaging/release.py puts a release, and what it writes without building anything."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.packaging import recipe

ROOT = Path(__file__).parents[2]
DPKG = """\
Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2.15-2+b13
Description: a shell
 of many words

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: svcserver
Status: install ok installed
Architecture: amd64
Version: 1.2.3
"""


class ReleaseFolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here, self.release = Path(folder.name), recipe("release.py")
        self.dist, self.made = self.here / "dist", self.here / "made"
        self.dist.mkdir()
        self.made.mkdir()

    def fill(self, folder: Path, version: str) -> set[str]:
        """A file of each kind; their names."""
        names = {one.replace("*", version) for one in self.release.KINDS}
        for name in names:
            (folder / name).write_text(version)
        return names

    def test_a_new_release_replaces_the_one_before(self) -> None:
        self.fill(self.dist, "1.2.3")
        names = self.fill(self.made, "1.2.4")
        self.release.replace(self.dist, self.made)
        self.assertEqual({one.name for one in self.dist.iterdir()}, names)
        self.assertEqual({one.read_text() for one in self.dist.iterdir()}, {"1.2.4"})

    def test_a_folder_that_holds_anything_else_is_left_as_it_is(self) -> None:
        names = self.fill(self.dist, "1.2.3")
        for other in ("notes.txt", "pictures/"):
            path = self.dist / other
            path.mkdir() if other.endswith("/") else path.touch()
            for act in (self.release.held, lambda dist: self.release.replace(dist, self.made)):
                said = str(self.assertRaises(SystemExit, act, self.dist))
                [line] = said.splitlines()
                self.assertIn(f"{self.dist} holds {path.name}, which belongs to no release", line)
            self.assertEqual({one.name for one in self.dist.iterdir()}, {*names, path.name})
            path.rmdir() if other.endswith("/") else path.unlink()

    def test_constraints_are_all_pins_without_hashes(self) -> None:
        path = self.here / "constraints.txt"
        self.release.constraints(path)
        lock = (ROOT / "requirements" / "run.lock").read_text()
        self.assertEqual(len(path.read_text().splitlines()), len(re.findall(r"(?m)^\S+==", lock)))
        for line in path.read_text().splitlines():
            self.assertRegex(line, r"^[a-z0-9-]+==[0-9a-z.]+$")
            self.assertIn(f"{line} \\\n", lock)


class ToolTests(SynchronousTestCase):
    def test_who_lacks_it_reads_the_command_that_shows_why(self) -> None:
        """The rule of make has just tried, and goes on where the package index is out of reach."""
        sbom = recipe("sbom.py")
        sbom.TOOL = Path(self.mktemp(), "bin", "cyclonedx-py")
        said = str(self.assertRaises(SystemExit, sbom.need_tool))
        [line] = said.splitlines()
        command = f"{sbom.TOOL.parent}/pip install --require-hashes -r requirements/audit.lock"
        self.assertIn(command, line)
        self.assertIn("where the package index can be reached", line)


class DebianPackagesTests(SynchronousTestCase):
    def test_what_is_installed_is_listed_and_the_project_is_none_of_debians(self) -> None:
        found = {one["name"]: one for one in recipe("sbom.py").debian_packages(DPKG)}
        self.assertEqual(set(found), {"bash", "svcserver"})
        purl = "pkg:deb/debian/bash@5.2.15-2%2Bb13?arch=amd64&distro=bookworm"
        self.assertEqual(found["bash"]["purl"], purl)
        self.assertEqual(found["bash"]["version"], "5.2.15-2+b13")
        self.assertEqual(found["svcserver"]["purl"], "pkg:generic/svcserver@1.2.3")
