"""A release: all of it, its checksums true, and the same bytes when it is built again."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.packages.support import ROOT, build

pytestmark = pytest.mark.packages

KINDS = (
    *("*.whl", "*.tar.gz", "*.deb", "*.pyz"),
    *("*-image.tar", "compose.yaml", "*-sbom.json", "*-changes.md"),
)
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


def test_its_list_of_materials_is_what_an_owner_runs(release: Path) -> None:
    [path] = release.glob("*-sbom.json")
    found = json.loads(path.read_text())["components"]
    lock = (ROOT / "requirements" / "run.lock").read_text()
    pinned = set(re.findall(r"(?m)^([a-z0-9-]+)==([^ ]+)", lock))
    assert {(one["name"].lower(), one["version"]) for one in found} == pinned
    assert {"twisted", "klein", "autobahn", "sqlalchemy", "cryptography"} <= {n for n, _ in pinned}


def test_its_changes_are_all_that_was_written_since_the_release_before(release: Path) -> None:
    [path] = release.glob("*-changes.md")
    said = " ".join(path.read_text().split())
    version = path.name.split("-")[1]
    assert said.startswith(f"## {version} (")
    written = list((ROOT / "newsfragments").glob("*.*.md"))
    assert written or f"## {version} (" in (ROOT / "CHANGELOG.md").read_text()
    missing = [one.name for one in written if " ".join(one.read_text().split()) not in said]
    assert missing == []


def test_a_second_build_gives_the_same_bytes(release: Path, tmp_path: Path) -> None:
    build("release.py", tmp_path)
    assert (tmp_path / SUMS).read_text() == (release / SUMS).read_text()
