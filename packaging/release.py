"""Builds all that a release consists of: ``make release`` leaves it in dist/.

    python packaging/release.py [DIST]

sdist, wheel, the launcher's two, the Debian package, the image, compose.yaml, an SBOM, the changes
of this version, and SHA256SUMS of them. Two runs on a commit are equal byte for byte where the work
tree is as committed, which a tagged commit's must be; what a system lacks (see ``need`` in
building.py) ends it with one line, and nothing is left out silently.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from building import ROOT, built, cloned, epoch, git, need, run, target, version, wheel
from suite import need_suite

SUMS = "SHA256SUMS"


def main() -> None:
    """Build everything, and say what was built."""
    need_suite()
    need("dpkg-buildpackage", "dh", "mmdebstrap", "buildah")
    check_tag()
    dist = target()
    for old in dist.iterdir():
        if old.is_file():
            old.unlink()
    os.umask(0o022)  # the modes in archives shall not depend on who builds
    python = sys.executable
    wheel(dist)
    source(dist)
    run(python, "packaging/launcher/build.py", dist)
    run(python, "packaging/deb.py", dist)
    run(python, "packaging/image.py", dist)
    shutil.copy(ROOT / "compose.yaml", dist)
    run("make", "sbom")
    shutil.copy(ROOT / "sbom.json", dist / f"svcserver-{version()}-sbom.json")
    changes(dist / f"svcserver-{version()}-changes.md")
    made = sorted(one for one in dist.iterdir() if one.name != SUMS)
    lines = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}" for one in made]
    (dist / SUMS).write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def check_tag() -> None:
    """A commit that is tagged as a version is released as that one, and as it was committed.

    Its changes are gathered. What is no clone has no tags.
    """
    said = git("tag", "--points-at", "HEAD") if cloned() else ""
    tags = [one for one in said.split() if one.startswith("v")]
    if not tags:
        return
    tagged = f"this commit is tagged {' '.join(tags)}, and"
    if f"v{version()}" not in tags:
        raise SystemExit(
            f"{tagged} pyproject.toml says {version()}: "
            "set the version there, commit, and move the tag"
        )
    if fragments():
        raise SystemExit(
            f"{tagged} changes wait in newsfragments/: "
            "gather them (.venv/bin/towncrier build --yes), commit, and move the tag"
        )
    if changed := git("status", "--porcelain", "--untracked-files").splitlines():
        raise SystemExit(
            f"{tagged} {len(changed)} of its files are not as committed ({changed[0].strip()}): "
            "put them away (git stash --include-untracked), or commit them and move the tag"
        )


def source(dist: Path) -> None:
    """The sdist; its tar is written again, since the tool gives its entries the time of now."""
    with tempfile.TemporaryDirectory() as folder:
        made = built("sdist", Path(folder), "*.tar.gz")
        (dist / made.name).write_bytes(settled(made))


def settled(archive: Path) -> bytes:
    """The same files in the order of their names, of nobody, with the time of the build."""
    plain = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for entry in sorted(old.getmembers(), key=lambda one: one.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch(), 0, 0, "", ""
            entry.pax_headers = {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch(), filename="") as out:
        out.write(plain.getvalue())
    return packed.getvalue()


def changes(path: Path) -> None:
    """What is new in this version: what waits in newsfragments, or what the changelog says."""
    if fragments():
        day = datetime.fromtimestamp(epoch(), UTC).date().isoformat()
        draft = ("-m", "towncrier", "build", "--draft", "--version", version(), "--date", day)
        path.write_text(run(sys.executable, *draft))
        return
    log = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"(?ms)^## {re.escape(version())} \(.*?(?=^## |\Z)", log)
    if found is None:
        raise SystemExit(
            f"nothing is said of {version()}: no change waits in newsfragments/, and CHANGELOG.md "
            "has no part of that version; write one, or set the version in pyproject.toml"
        )
    path.write_text(found[0])


def fragments() -> list[Path]:
    """The changes that wait for a version."""
    return list((ROOT / "newsfragments").glob("*.*.md"))


if __name__ == "__main__":
    main()
