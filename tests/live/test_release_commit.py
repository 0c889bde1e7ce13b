"""The git queries of the packaging programs: a release contains what was committed.

Real processes are needed because the tests run git.
"""

import os
import subprocess
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.support.packaging import recipes

pytestmark = pytest.mark.live

# git reads no settings but the clone's
NOBODY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


class ReleaseCommitTests(SynchronousTestCase):
    """Tests in a new clone that has one commit."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name, "clone")
        self.building, self.release = recipes("building.py", "release.py")
        for module in (self.building, self.release):
            self.patch(module, "ROOT", self.root)
        environ = mock.patch.dict(os.environ, NOBODY)
        environ.start()
        self.addCleanup(environ.stop)
        os.environ.pop("SOURCE_DATE_EPOCH", None)
        (self.root / "newsfragments").mkdir(parents=True)
        (self.root / "pyproject.toml").write_text('version = "1.2.3"\n')
        self.git("init", "-q")
        self.commit()

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=svc", "-c", "user.email=svc@example.org")
        subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "-m", "x")

    def refused(self) -> str:
        reply = self.assertRaises(SystemExit, self.release.check_tag)
        return str(reply)

    def test_the_commit_of_its_version_is_released(self) -> None:
        self.git("tag", "v1.2.3")
        self.release.check_tag()

    def test_a_tag_of_another_version_is_refused(self) -> None:
        self.git("tag", "v1.2.4")
        self.assertIn("tagged v1.2.4, but pyproject.toml says 1.2.3", self.refused())

    def test_a_release_with_unmerged_news_fragments_is_refused(self) -> None:
        (self.root / "newsfragments" / "+new.feature.md").write_text("New.\n")
        self.commit()
        self.git("tag", "v1.2.3")
        self.assertIn("newsfragments/ has changes", self.refused())

    def test_uncommitted_changes_are_refused_only_on_a_tag(self) -> None:
        for name in ("pyproject.toml", "new.py"):
            with (self.root / name).open("a") as file:
                file.write("# mine\n")
            self.release.check_tag()
            self.git("tag", "v1.2.3")
            reply = self.refused()
            self.assertIn("the work tree has uncommitted changes", reply)
            self.assertIn(name, reply)
            self.assertIn("git stash", reply)
            self.git("tag", "--delete", "v1.2.3")
            self.git("stash", "--include-untracked")

    def test_a_clone_of_another_user_builds_nothing(self) -> None:
        with mock.patch.dict(os.environ, GIT_TEST_ASSUME_DIFFERENT_OWNER="1"):
            self.refuses_all(f"git config --global --add safe.directory {self.root}")

    def test_a_work_tree_whose_clone_is_gone_builds_nothing(self) -> None:
        self.root = self.root.parent / "tree"
        self.root.mkdir()
        (self.root / ".git").write_text("gitdir: /nowhere/at/all\n")
        for module in (self.building, self.release):
            self.patch(module, "ROOT", self.root)
        self.refuses_all("not a git repository")

    def refuses_all(self, why: str) -> None:
        copied = self.root.parent / "copied"
        for request in (
            self.release.check_tag,
            self.building.epoch,
            lambda: self.building.copied(copied),
        ):
            [line] = str(self.assertRaises(SystemExit, request)).splitlines()
            self.assertIn(" failed in", line)
            self.assertIn(why, line)
        self.assertFalse(copied.exists())

    def test_only_committed_files_are_built_with_the_commits_time(self) -> None:
        (self.root / "new.py").write_text("# mine\n")
        copied = self.building.copied(self.root.parent / "copied")
        self.assertEqual([path.name for path in copied.iterdir()], ["pyproject.toml"])
        self.assertGreater(self.building.epoch(), 0)

    def test_an_unpacked_sdist_uses_the_time_of_its_files(self) -> None:
        (self.root / ".git").rename(self.root.parent / "gone")
        self.assertEqual(self.building.copied(self.root.parent / "copied"), self.root)
        self.assertEqual(self.building.epoch(), self.building.OLDEST)
        made = self.root / "PKG-INFO"
        made.touch()
        for moment, epoch in ((0, self.building.OLDEST), (1_700_000_000, 1_700_000_000)):
            os.utime(made, (moment, moment))
            self.assertEqual(self.building.epoch(), epoch)

    def test_a_release_is_made_of_a_clone_alone(self) -> None:
        self.release.check_clone()
        (self.root / ".git").rename(self.root.parent / "gone")
        [line] = str(self.assertRaises(SystemExit, self.release.check_clone)).splitlines()
        self.assertIn("is not a clone, but a release must be built from a commit: clone", line)
