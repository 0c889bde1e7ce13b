"""What whoever begins relies on: the hooks before a commit, hosted CI, and what both install."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

from tests.flaky import LIVE_HALF
from tests.live import tour_times
from tests.workplace import PROGRAMS, RELEASING

ROOT = Path(__file__).parents[2]
MADE_OF = {
    "packaging/**",
    "compose.yaml",
    "requirements/**",
    "pyproject.toml",
    "setup.cfg",
    "MANIFEST.in",
    "tests/support/**",
}
CHECK = re.search(r"(?m)^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text())


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def installed_by(script: str) -> set[str]:
    """The Debian packages that a script of ``.ci`` installs."""
    found = re.search(r"(?m)^packages=\((.*)\)", (ROOT / ".ci" / script).read_text())
    assert found is not None, script
    return set(found[1].split())


def pages_that_packages_paste() -> set[str]:
    """The owners' pages that the tests of packages name, and the tour's where one takes it."""
    texts = [one.read_text() for one in (ROOT / "tests" / "packages").glob("*.py")]
    words = re.findall(r'"([\w-]+\.md)"', "".join(texts))
    named = {ROOT / "docs" / "owners" / word for word in words}
    if any("tests.live.tour_times import" in one for one in texts):
        named.add(tour_times.PAGE)
    return {str(one.relative_to(ROOT)) for one in named if one.exists()}


class HookTests(SynchronousTestCase):
    def test_each_hook_is_a_line_of_make_check(self) -> None:
        assert CHECK is not None
        lines = CHECK[1].replace("$(BIN)/", ".venv/bin/")
        [local] = read(".pre-commit-config.yaml")["repos"]
        self.assertEqual(len(local["hooks"]), 4)
        for hook in local["hooks"]:
            words = hook["entry"].replace(" --force-exclude", "")
            self.assertIn(words, lines, hook["id"])
            self.assertEqual(hook["language"], "system")  # the pinned tools, and no others

    def test_the_set_up_of_an_editor_is_json_and_names_what_is_there(self) -> None:
        page = (ROOT / "docs" / "contributors" / "first-change.md").read_text()
        found = re.search(r"(?s)```json\n(.*?)```", page)
        assert found is not None
        said = json.loads(found[1])
        # an extension works in another folder; ruff and mypy are those of the interpreter
        interpreter = "${workspaceFolder}/.venv/bin/python"
        self.assertEqual(said["python.defaultInterpreterPath"], interpreter)

    def test_what_the_first_tasks_name_is_there(self) -> None:
        page = (ROOT / "docs" / "contributors" / "first-change.md").read_text()
        named = re.findall(r"`((?:svcserver|tests|docs)/[\w/.-]+)`", page)
        self.assertGreater(len(named), 6)
        self.assertEqual([one for one in named if not (ROOT / one).exists()], [])


class HalvesTests(SynchronousTestCase):
    def test_the_live_half_is_the_one_for_which_less_is_imported(self) -> None:
        said = re.search(r'(?m)^LIVE := -m "(.*)"$', (ROOT / "Makefile").read_text())
        assert said is not None
        self.assertEqual(said[1], LIVE_HALF)


class HostedTests(SynchronousTestCase):
    def test_it_runs_what_everybody_runs(self) -> None:
        for name, script in (("everything", ".ci/run"), ("packages", ".ci/packages")):
            file = "ci" if name == "everything" else name
            [(found, job)] = read(f".github/workflows/{file}.yml")["jobs"].items()
            self.assertEqual(found, name)
            scripts = [one["run"] for one in job["steps"] if one.get("run", "").startswith(".")]
            self.assertEqual(scripts, [script])
            self.assertTrue(os.access(ROOT / script, os.X_OK), name)
            # git reads no clone of another user, and the release is made of what git knows
            trusts = [one for one in job["steps"] if "safe.directory" in one.get("run", "")]
            self.assertEqual(len(trusts), 1, name)
            [first] = [one["run"] for one in job["steps"][:1]]
            for package in ("git", "python3", "python3-venv", "make"):
                self.assertIn(f" {package}", first, name)

    def test_packages_are_tried_for_a_tag_each_week_and_where_a_change_may_concern_them(
        self,
    ) -> None:
        begins = read(".github/workflows/packages.yml")[True]  # what YAML makes of "on"
        self.assertEqual(set(begins), {"push", "pull_request", "schedule", "workflow_dispatch"})
        self.assertEqual(begins["push"]["tags"], ["v*"])
        pasted = pages_that_packages_paste()
        self.assertGreater(len(pasted), 3)
        for event in ("push", "pull_request"):
            for path in begins[event]["paths"]:
                self.assertTrue([*ROOT.glob(path)], path)
            self.assertLess(MADE_OF | pasted, set(begins[event]["paths"]))

    def test_a_tag_leaves_the_release_that_was_tested(self) -> None:
        job = read(".github/workflows/packages.yml")["jobs"]["packages"]
        tested, kept = job["steps"][-2:]
        self.assertEqual(tested["run"], ".ci/packages")
        self.assertTrue(kept["uses"].startswith("actions/upload-artifact@"))
        self.assertEqual(kept["with"]["path"], "dist/")
        self.assertEqual(kept["with"]["if-no-files-found"], "error")
        script = (ROOT / ".ci" / "packages").read_text()
        self.assertIn("\nmake release\nSVC_TEST_RELEASE=dist ", script)

    def test_what_names_the_version_names_this_one(self) -> None:
        form = r'(?m)^version = "(.*)"$'
        [version] = re.findall(form, (ROOT / "pyproject.toml").read_text())
        launcher = (ROOT / "packaging" / "launcher" / "pyproject.toml").read_text()
        image = (ROOT / "compose.yaml").read_text()
        texts = [ROOT / "README.md", *(ROOT / "docs" / "owners").glob("*.md")]
        pages = "".join(one.read_text() for one in texts)
        named = re.findall(form, launcher)
        named += re.findall(r"SVC_VERSION:-([\d.]+)\}", image)
        named += re.findall(r"svcserver[-_:](\d+\.\d+\.\d+)[-_\s]", pages)
        self.assertGreater(len(named), 5)
        self.assertEqual(set(named), {version})

    def test_ci_installs_all_that_the_doctor_asks_for(self) -> None:
        wanted = {one for *_, packages in PROGRAMS for one in packages.split()}
        self.assertEqual(wanted - installed_by("run"), set())
        self.assertEqual(set(RELEASING.values()) - installed_by("packages"), set())
