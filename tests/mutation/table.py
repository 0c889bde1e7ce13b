"""Which files are broken on purpose, and which tests must notice."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("rules.txt")


def targets() -> dict[str, list[str]]:
    """A file and its tests: every ``rules.py`` with the tests of its folder, and ``rules.txt``.

    That file lists what is no ``rules.py``, or has tests elsewhere too.
    """
    found = {}
    for path in sorted((ROOT / "svcserver").rglob("rules.py")):
        folder = Path("tests", *path.parent.relative_to(ROOT / "svcserver").parts)
        found[path.relative_to(ROOT).as_posix()] = [folder.as_posix()]
    for line in LISTED.read_text().splitlines():
        file, *tests = line.split()
        found[file] = tests
    return found
