"""A release: all of it, its checksums true, and the same bytes when it is built again."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from tests.packages.support import LONGEST_BUILD_S, ROOT, run

pytestmark = pytest.mark.packages

KINDS = (
    *("*.whl", "*.tar.gz", "*.deb", "*.pyz", "*-constraints.txt"),
    *("*-image.tar", "compose.yaml", "*-sbom.json", "*-changes.md"),
)
PINS = re.compile(r"(?m)^([a-z0-9-]+)==([^ ]+)")
SUMS = "SHA256SUMS"


def test_it_holds_every_kind_of_package(release: Path) -> None:
    assert [kind for kind in KINDS if not list(release.glob(kind))] == []
    assert len(list(release.glob("*.whl"))) == 2  # the host's, and the launcher's


def test_its_compose_file_starts_its_own_image(release: Path) -> None:
    [archive] = release.glob("*-image.tar")
    version = archive.name.split("-")[1]
    said = (release / "compose.yaml").read_text()
    assert f"image: localhost/svcserver:${{SVC_VERSION:-{version}}}\n" in said


def test_its_checksums_name_every_file(release: Path) -> None:
    said = dict(reversed(line.split("  ")) for line in (release / SUMS).read_text().splitlines())
    files = [one for one in release.iterdir() if one.name != SUMS]
    assert said == {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


@pytest.mark.parametrize(
    ("what", "locks"),
    [("svcserver", ("run",)), ("svc-launcher", ("launcher", "launcher-windows"))],
)
def test_its_lists_of_materials_are_what_a_host_and_the_launcher_bring_along(
    release: Path, what: str, locks: tuple[str, ...]
) -> None:
    [path] = [one for one in release.glob(f"{what}-*-sbom.json") if "-image-" not in one.name]
    found = json.loads(path.read_text())["components"]
    texts = [(ROOT / "requirements" / f"{one}.lock").read_text() for one in locks]
    pinned = set(PINS.findall("".join(texts)))
    assert {(one["name"].lower(), one["version"]) for one in found} == pinned
    assert {"twisted", "cryptography"} <= {name for name, _ in pinned}


def test_its_list_of_the_image_names_each_debian_package(release: Path) -> None:
    [path] = release.glob("*-image-sbom.json")
    found = {one["name"]: one["version"] for one in json.loads(path.read_text())["components"]}
    assert {"bash", "libc6", "postgresql-client-15", "python3.11"} <= set(found)
    assert found["svcserver"] == path.name.split("-")[1]


def test_its_constraints_are_the_versions_that_it_was_tested_with(release: Path) -> None:
    [path] = release.glob("*-constraints.txt")
    lock = (ROOT / "requirements" / "run.lock").read_text()
    assert path.read_text() == "".join(
        f"{name}=={version}\n" for name, version in PINS.findall(lock)
    )


def test_its_changes_are_all_that_was_written_since_the_release_before(release: Path) -> None:
    [path] = release.glob("*-changes.md")
    said = " ".join(path.read_text().split())
    version = path.name.split("-")[1]
    assert said.startswith(f"## {version} (")
    written = list((ROOT / "newsfragments").glob("*.*.md"))
    assert written or f"## {version} (" in (ROOT / "CHANGELOG.md").read_text()
    missing = [one.name for one in written if " ".join(one.read_text().split()) not in said]
    assert missing == []


# slow: a whole release is built
def test_a_build_in_another_clone_gives_the_same_bytes(release: Path, tmp_path: Path) -> None:
    """Where nobody else may read, which is another mode of each file; with what git cannot know."""
    clone, changed = tmp_path / "clone", tmp_path / "changed.patch"
    # without tags: a tagged commit is released only as it was committed
    run("git", "clone", "-q", "--no-tags", ROOT, clone, umask=0o077)
    changed.write_text(run("git", "diff", "HEAD", "--binary"))
    if changed.stat().st_size:
        run("git", "-C", clone, "apply", changed, umask=0o077)
    for name in ("svcserver/kernel", "svcserver/ctl", "packaging/deb/debian", "docs/owners"):
        for kind in ("docs", "md", "py"):
            (clone / name / f"untracked.{kind}").write_text("# untracked\n")
    build = (sys.executable, clone / "packaging" / "release.py", tmp_path / "dist")
    # the program writes units, and is that of the clone
    run(*build, patience_s=LONGEST_BUILD_S, umask=0o077, PYTHONPATH=str(clone))
    assert (tmp_path / "dist" / SUMS).read_text() == (release / SUMS).read_text()
