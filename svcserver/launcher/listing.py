"""The host's list of game files, validated: a host must not write where it likes. Pure."""

from __future__ import annotations

import re
from typing import Any

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import plain
from svcserver.kernel.game_paths import LARGEST, MOST_FILES, is_safe, same_place

LONGEST_BUILD = 64  # characters of a version's name
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


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
    if same_place(entry.path for entry in files):
        raise BadListing("two of its files need the same place")
    build, program = value.get("build"), value.get("program")
    if not any(entry.path == program for entry in files):
        program = ""  # only a verified file of the game is started
    return Listing(plain(build[:LONGEST_BUILD]) if isinstance(build, str) else "", files, program)


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
