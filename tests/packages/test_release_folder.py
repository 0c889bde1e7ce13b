"""The folder that packaging/release.py writes, and those of its messages that need no build."""

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
        """Write a file of each kind and return their names."""
        names = {kind.replace("*", version) for kind in self.release.KINDS}
        for name in names:
            (folder / name).write_text(version)
        return names

    def test_a_new_release_replaces_the_previous_release(self) -> None:
        self.fill(self.dist, "1.2.3")
        names = self.fill(self.made, "1.2.4")
        self.release.replace(self.dist, self.made)
        self.assertEqual({path.name for path in self.dist.iterdir()}, names)
        self.assertEqual({path.read_text() for path in self.dist.iterdir()}, {"1.2.4"})

    def test_a_folder_that_holds_anything_else_is_left_as_it_is(self) -> None:
        names = self.fill(self.dist, "1.2.3")
        for foreign in ("notes.txt", "pictures/"):
            path = self.dist / foreign
            path.mkdir() if foreign.endswith("/") else path.touch()
            for act in (self.release.held, lambda dist: self.release.replace(dist, self.made)):
                message = str(self.assertRaises(SystemExit, act, self.dist))
                [line] = message.splitlines()
                self.assertIn(f"{self.dist} has {path.name}, which is not part of a release", line)
            self.assertEqual({entry.name for entry in self.dist.iterdir()}, {*names, path.name})
            path.rmdir() if foreign.endswith("/") else path.unlink()

    def test_constraints_are_all_pins_without_hashes(self) -> None:
        path = self.here / "constraints.txt"
        self.release.constraints(path)
        lock = (ROOT / "requirements" / "run.lock").read_text()
        self.assertEqual(len(path.read_text().splitlines()), len(re.findall(r"(?m)^\S+==", lock)))
        for line in path.read_text().splitlines():
            self.assertRegex(line, r"^[a-z0-9-]+==[0-9a-z.]+$")
            self.assertIn(f"{line} \\\n", lock)


class ToolTests(SynchronousTestCase):
    def test_a_missing_sbom_tool_names_its_install_command(self) -> None:
        """The make rule tries this command first, and continues if there is no package index."""
        sbom = recipe("sbom.py")
        sbom.TOOL = Path(self.mktemp(), "bin", "cyclonedx-py")
        message = str(self.assertRaises(SystemExit, sbom.need_tool))
        [line] = message.splitlines()
        command = f"{sbom.TOOL.parent}/pip install --require-hashes -r requirements/audit.lock"
        self.assertIn(command, line)
        self.assertIn("if the package index can be reached", line)


class DebianPackagesTests(SynchronousTestCase):
    def test_installed_packages_are_listed_without_our_own(self) -> None:
        packages = {package["name"]: package for package in recipe("sbom.py").debian_packages(DPKG)}
        self.assertEqual(set(packages), {"bash", "svcserver"})
        purl = "pkg:deb/debian/bash@5.2.15-2%2Bb13?arch=amd64&distro=bookworm"
        self.assertEqual(packages["bash"]["purl"], purl)
        self.assertEqual(packages["bash"]["version"], "5.2.15-2+b13")
        self.assertEqual(packages["svcserver"]["purl"], "pkg:generic/svcserver@1.2.3")
