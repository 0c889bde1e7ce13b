"""Which files are broken on purpose, and which tests must notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "svcserver"

# what decides, wherever it stands, is named so
RULES = frozenset(
    {
        *("entries", "fleet", "hunts", "items", "launches", "limits", "names", "paths"),
        *("policy", "ranges", "readers", "rules", "shapes", "wire"),
    }
)
# and in the folders whose work is to decide, these
ALSO = {
    "chat": {
        *("admission", "kinds", "lockout", "messages", "presence", "readings", "requests"),
        *("room_access", "rooms", "session", "stanza", "status"),
    },
    "board": {"quota"},
    "kernel": {"redaction", "sampling", "throttle", "times"},
}
LEFT_OUT = PACKAGE / "ctl"  # what it does shows in the exit status and the words of a command

# Tests outside a file's own folder that must notice, too.
ELSEWHERE = {
    "metagame/belongings/loadouts": "metagame/belongings/savehistory",
    "metagame/play/matchmaking": "metagame/social/parties/test_candidates.py",
}


def targets() -> dict[str, list[str]]:
    """A file and its tests: those of the folder that stands where the file does, or above it.

    And the files of tests right above that folder, which prove what the features of a group share.
    """
    return {path.relative_to(ROOT).as_posix(): _tests(path) for path in sorted(_files())}


def _files() -> Iterator[Path]:
    for path in PACKAGE.rglob("*.py"):
        names = RULES | ALSO.get(path.parent.name, frozenset())
        if path.stem in names and LEFT_OUT not in path.parents:
            yield path


def _tests(file: Path) -> list[str]:
    place = file.parent.relative_to(PACKAGE)
    also = ELSEWHERE.get(place.as_posix())
    while not any((ROOT / "tests" / place).glob("test_*.py")):
        place = place.parent
    found = [Path("tests", place), *([Path("tests", also)] if also else [])]
    if len(place.parts) > 2:  # a feature of a group
        group = ROOT / "tests" / place.parent
        found += [one.relative_to(ROOT) for one in sorted(group.glob("test_*.py"))]
    return [one.as_posix() for one in found]
