"""The host's list of game files, validated: a host must not write where it likes.

Pure. A path that Windows would interpret differently is refused on every system, so that a list
means the same everywhere.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import is_plain, plain

MOST_FILES = 200_000
LONGEST_LIST = 64 * 1024 * 1024  # bytes
LONGEST_BUILD = 64  # characters of a version's name
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_UNSAFE = re.compile(r'[:*?"<>|\\]')
_DEVICE = re.compile(  # "nul .txt" is the device, too
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\.|\Z)", re.IGNORECASE
)
_SHORT = re.compile(r"[^.]{1,6}~\d+(?:\..{0,3})?\Z")  # Windows' other name of a longer one
LARGEST = 2**50  # bytes of a file
OWN_FOLDER = ".svc-launcher"  # the launcher's folder inside the game's


class BadListing(ValueError):
    """Raised if a list of files must not be followed; the text is the reason."""


@frozen
class GameFile:
    """A file's path in the game's folder, its size and its checksum."""

    path: str  # with slashes
    size: int
    sha256: str


@frozen
class Listing:
    """All files of one version of the game."""

    build: str
    files: tuple[GameFile, ...] = field(repr=False)
    program: str = ""  # the file that starts the game; empty: the owner names none

    @property
    def total(self) -> int:
        """The size of all files, in bytes."""
        return sum(file.size for file in self.files)


def read_listing(text: bytes) -> Listing:
    """Parse the list in a reply; raise BadListing."""
    try:
        value = json.parse(text)
    except json.BadJson:
        raise BadListing("it is not JSON") from None
    raw = value.get("files") if isinstance(value, dict) else None
    if not isinstance(raw, list) or len(raw) > MOST_FILES:
        raise BadListing("it has no list of files")
    files = tuple(_file(entry) for entry in raw)
    _check_places([entry.path.lower() for entry in files])
    build, program = value.get("build"), value.get("program")
    if not any(entry.path == program for entry in files):
        program = ""  # only a verified file of the game is started
    return Listing(plain(build[:LONGEST_BUILD]) if isinstance(build, str) else "", files, program)


def _check_places(paths: list[str]) -> None:
    """Raise BadListing if two files need the same path.

    Sorted with the separator before every other character, a folder's content directly follows a
    file with the folder's name. A set of all folders could take gigabytes: paths may be deep.
    """
    places = sorted(path.replace("/", "\0") for path in paths)
    for before, after in pairwise(places):
        if before == after:
            raise BadListing("it names a file twice")
        if after.startswith(before + "\0"):
            raise BadListing("it has a file where it has a folder")


def _file(entry: Any) -> GameFile:
    fields = entry if isinstance(entry, dict) else {}
    path, size, sha256 = fields.get("path"), fields.get("size"), fields.get("sha256")
    if not isinstance(path, str) or not is_safe(path):
        raise BadListing("it has a path that must not be written")
    if type(size) is not int or not 0 <= size <= LARGEST:
        raise BadListing("it has an invalid size")
    if not isinstance(sha256, str) or not _SHA256.match(sha256):
        raise BadListing("it has an invalid hash")
    return GameFile(path, size, sha256)


def is_safe(path: str) -> bool:
    """Return whether a path stays inside its folder, on every system, and outside ours."""
    parts = path.split("/")
    return (
        0 < len(path) <= 1024
        and not _UNSAFE.search(path)
        and is_plain(path)
        and all(part.strip(" .") and not _DEVICE.match(part) for part in parts)
        and all(part[-1] not in " ." and not _SHORT.match(part) for part in parts)
        and parts[0].lower() != OWN_FOLDER
    )
