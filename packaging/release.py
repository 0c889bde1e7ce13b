"""Builds all files of a release: ``make release`` puts them into dist/.

    python packaging/release.py [DIST]

A release has the sdist, the wheel with its constraints, the launcher's three files, the Debian
package, the image, compose.yaml, lists of components (SBOM), the changes of this version, and
SHA256SUMS of all of them. Two builds of a commit are identical byte for byte if the work tree has
no uncommitted changes, which is required for a tagged commit. If the system lacks a program, the
build exits with a one-line error message; it never omits a file silently. A previous release in
DIST is replaced when the new one is complete.
"""

import gzip
import hashlib
import io
import re
import shutil
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from building import ROOT, built, cloned, epoch, git, need, run, target, version, wheel
from sbom import need_tool, write_pinned
from suite import need_suite

SUMS = "SHA256SUMS"
KINDS = (
    *("svcserver-*.whl", "svcserver-*.tar.gz", "svcserver-*-constraints.txt"),
    *(
        "svc_launcher-*.whl",
        "svc-launcher.pyz",
        "svc-launcher-windows.zip",
        "svcserver_*.deb",
        "svcserver-*-image.tar",
    ),
    *("compose.yaml", "svcserver-*-sbom.json", "svc-launcher-*-sbom.json"),
    *("svcserver-*-changes.md", SUMS),
)


def main() -> None:
    """Build everything, and print the checksums."""
    check_clone()
    need_suite()
    need("dpkg-buildpackage", "dh", "mmdebstrap", "buildah")
    need_tool()
    check_tag()
    dist = target()
    held(dist)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        build(made)
        replace(dist, made)
    print((dist / SUMS).read_text(), end="")


def build(folder: Path) -> None:
    """Build all files of a release in ``folder``."""
    python = sys.executable
    wheel(folder)
    constraints(folder / f"svcserver-{version()}-constraints.txt")
    source(folder)
    run(python, "packaging/launcher.py", folder)
    run(python, "packaging/launcher_windows.py", folder)
    run(python, "packaging/deb.py", folder)
    run(python, "packaging/image.py", folder)
    shutil.copy(ROOT / "compose.yaml", folder)
    list(write_pinned(folder))
    changes(folder / f"svcserver-{version()}-changes.md")
    made = sorted(folder.iterdir())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    (folder / SUMS).write_text("".join(lines))


def held(dist: Path) -> list[Path]:
    """Return the files of the release in ``dist``; exit with an error if other files are there."""
    paths = sorted(dist.iterdir())
    for path in paths:
        if not path.is_file() or not any(path.match(kind) for kind in KINDS):
            raise SystemExit(
                f"{dist} has {path.name}, which is not part of a release, and the build replaces "
                "the contents of the folder: name an empty folder, or the folder of a release"
            )
    return paths


def replace(dist: Path, made: Path) -> None:
    """Replace the previous release by the new files."""
    for old in held(dist):
        old.unlink()
    for path in sorted(made.iterdir(), key=lambda path: path.name == SUMS):  # the sums are the last
        shutil.move(path, dist)


def check_clone() -> None:
    """Exit with an error if this is not a clone: a release must be built from a commit."""
    if not cloned():
        raise SystemExit(
            f"{ROOT} is not a clone, but a release must be built from a commit: clone the project; "
            "make launcher, make deb and make image work here, too"
        )


def constraints(path: Path) -> None:
    """Write the tested versions of run.lock to a file for ``pip install -c``."""
    lock = (ROOT / "requirements" / "run.lock").read_text()
    pins = re.findall(r"(?m)^[A-Za-z0-9][^ \\\n]*==[^ \\\n]+", lock)
    path.write_text("".join(f"{pin}\n" for pin in pins))


def check_tag() -> None:
    """Exit with an error if the commit is tagged but not ready for that release.

    The tag must be the project's version, no change may wait in newsfragments/, and the work tree
    must have no uncommitted changes.
    """
    tags = [tag for tag in git("tag", "--points-at", "HEAD").split() if tag.startswith("v")]
    if not tags:
        return
    tagged = f"this commit is tagged {' '.join(tags)}, but"
    if f"v{version()}" not in tags:
        raise SystemExit(
            f"{tagged} pyproject.toml says {version()}: "
            "set the version there, commit, and move the tag"
        )
    if fragments():
        raise SystemExit(
            f"{tagged} newsfragments/ has changes: "
            "collect them (.venv/bin/towncrier build --yes), commit, and move the tag"
        )
    if changed := git("status", "--porcelain", "--untracked-files").splitlines():
        raise SystemExit(
            f"{tagged} the work tree has uncommitted changes ({changed[0].strip()}; "
            f"{len(changed)} in all): "
            "stash them (git stash --include-untracked), or commit them and move the tag"
        )


def source(dist: Path) -> None:
    """Build the sdist and repack it, because its entries have the current time."""
    with tempfile.TemporaryDirectory() as folder:
        made = built("sdist", Path(folder), "*.tar.gz")
        (dist / made.name).write_bytes(settled(made))


def settled(archive: Path) -> bytes:
    """Return the archive repacked: files sorted by name, without owners, with the build's time."""
    plain = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for entry in sorted(old.getmembers(), key=lambda member: member.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch(), 0, 0, "", ""
            entry.pax_headers = {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch(), filename="") as out:
        out.write(plain.getvalue())
    return packed.getvalue()


def changes(path: Path) -> None:
    """Write the changes of this version, from newsfragments or the changelog."""
    if fragments():
        day = datetime.fromtimestamp(epoch(), UTC).date().isoformat()
        draft = ("-m", "towncrier", "build", "--draft", "--version", version(), "--date", day)
        path.write_text(run(sys.executable, *draft))
        return
    log = (ROOT / "CHANGELOG.md").read_text()
    match = re.search(rf"(?ms)^## {re.escape(version())} \(.*?(?=^## |\Z)", log)
    if match is None:
        raise SystemExit(
            f"there is no changelog of {version()}: newsfragments/ is empty, and CHANGELOG.md has "
            "no section of that version; write one, or correct the version in pyproject.toml"
        )
    path.write_text(match[0])


def fragments() -> list[Path]:
    """Return the files of changes that are not yet assigned to a version."""
    return list((ROOT / "newsfragments").glob("*.*.md"))


if __name__ == "__main__":
    main()
