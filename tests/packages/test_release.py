"""A release: it is complete, its checksums are right, and a second build gives the same bytes."""

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from tests.packages.support import LONGEST_BUILD_S, ROOT, run
from tests.support.packaging import recipe

pytestmark = pytest.mark.packages

KINDS = (
    *("*.whl", "*.tar.gz", "*.deb", "*.pyz", "*-windows.zip", "*-constraints.txt"),
    *("*-image.tar", "compose.yaml", "*-sbom.json", "*-changes.md"),
)
PINS = re.compile(r"(?m)^([a-z0-9-]+)==([^ ]+)")
SUMS = "SHA256SUMS"


def test_the_release_holds_every_kind_of_package(release: Path) -> None:
    assert [kind for kind in KINDS if not list(release.glob(kind))] == []
    assert len(list(release.glob("*.whl"))) == 2  # the wheel of the host and that of the launcher


def test_the_compose_file_of_a_release_starts_its_own_image(release: Path) -> None:
    [archive] = release.glob("*-image.tar")
    version = archive.name.split("-")[1]
    text = (release / "compose.yaml").read_text()
    assert f"image: localhost/svcserver:${{SVC_VERSION:-{version}}}\n" in text


def test_the_checksums_of_a_release_cover_every_file(release: Path) -> None:
    sums = dict(reversed(line.split("  ")) for line in (release / SUMS).read_text().splitlines())
    files = [path for path in release.iterdir() if path.name != SUMS]
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    ("what", "locks"),
    [("svcserver", ("run",)), ("svc-launcher", ("launcher", "launcher-windows"))],
)
def test_sboms_list_all_packages_of_the_host_and_the_launcher(
    release: Path, what: str, locks: tuple[str, ...]
) -> None:
    [path] = [path for path in release.glob(f"{what}-*-sbom.json") if "-image-" not in path.name]
    components = json.loads(path.read_text())["components"]
    texts = [(ROOT / "requirements" / f"{path}.lock").read_text() for path in locks]
    pinned = set(PINS.findall("".join(texts)))
    parts = recipe("launcher_windows.py").PARTS if what == "svc-launcher" else ()
    listed = {(component["name"], component["version"]) for component in components}
    assert listed == pinned | {(part.name, part.version) for part in parts}
    assert {"twisted", "cryptography"} <= {name for name, _ in pinned}


def test_the_sbom_of_the_image_names_debian_packages_and_version(release: Path) -> None:
    [path] = release.glob("*-image-sbom.json")
    versions = {
        component["name"]: component["version"]
        for component in json.loads(path.read_text())["components"]
    }
    assert {"bash", "libc6", "postgresql-client-15", "python3.11"} <= set(versions)
    assert versions["svcserver"] == path.name.split("-")[1]


def test_the_constraints_of_a_release_are_the_locked_versions(release: Path) -> None:
    [path] = release.glob("*-constraints.txt")
    lock = (ROOT / "requirements" / "run.lock").read_text()
    assert path.read_text() == "".join(
        f"{name}=={version}\n" for name, version in PINS.findall(lock)
    )


def test_changes_hold_all_fragments_since_the_last_release(release: Path) -> None:
    [path] = release.glob("*-changes.md")
    changes = " ".join(path.read_text().split())
    version = path.name.split("-")[1]
    assert changes.startswith(f"## {version} (")
    written = list((ROOT / "newsfragments").glob("*.*.md"))
    assert written or f"## {version} (" in (ROOT / "CHANGELOG.md").read_text()
    missing = [
        fragment.name
        for fragment in written
        if " ".join(fragment.read_text().split()) not in changes
    ]
    assert missing == []


# slow: a whole release is built
def test_a_build_in_another_clone_gives_the_same_bytes(release: Path, tmp_path: Path) -> None:
    """The other clone has private file modes, and untracked files that the build must ignore."""
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
    # the program that writes the units must be the clone's
    run(*build, patience_s=LONGEST_BUILD_S, umask=0o077, PYTHONPATH=str(clone))
    assert (tmp_path / "dist" / SUMS).read_text() == (release / SUMS).read_text()
