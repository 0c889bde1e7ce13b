"""The host's list of game files, validated so that a host cannot write outside the game's folder.

This module does no I/O. If Windows would interpret a path in another way than other systems, the
path is refused on every system. So a list means the same everywhere.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from sys import getsizeof
from typing import overload

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import plain
from svcserver.kernel.game_paths import LARGEST_PATHS, MOST_FILES, is_safe, same_place

LARGEST = 2**50  # bytes of a file
LONGEST_BUILD = 64  # characters of a version's name
LONGEST_ENTRY = 16 * 1024  # bytes of a file's JSON object, with escapes in its path
LONGEST_REST = 64 * 1024  # bytes of the JSON before the files, and after them
_FILES = re.compile(rb'"files"\s*:\s*\[')
_NO_FILES = re.compile(rb"\s*(\])")
_ENTRY = re.compile(  # an object without nested objects or lists, and what follows it
    rb'\s*(\{(?:[^"{}\[\]]|"(?:[^"\\]|\\.)*")*\})\s*([,\]])', re.DOTALL
)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class BadListing(ValueError):
    """The error for a list of files that is not safe or not valid; its text is the reason."""


@frozen
class GameFile:
    """A game file: its path in the game's folder, its size and its SHA-256."""

    path: str  # with slashes
    size: int
    sha256: str


@frozen(eq=False)
class FileTable(Sequence[GameFile]):
    """The validated entries of a file list, stored as JSON text.

    An entry is parsed each time it is used.
    """

    text: bytes = field(repr=False)
    bounds: array[int] = field(repr=False)  # the start and the end of each file's JSON object

    def __len__(self) -> int:
        return len(self.bounds) // 2

    def __iter__(self) -> Iterator[GameFile]:
        return map(self.__getitem__, range(len(self)))

    @overload
    def __getitem__(self, at: int) -> GameFile: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[GameFile]: ...

    def __getitem__(self, at: int | slice) -> GameFile | Sequence[GameFile]:
        numbers = range(len(self))[at]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        start, end = self.bounds[2 * numbers : 2 * numbers + 2]
        fields = json.parse_deep(self.text[start:end])
        return GameFile(fields["path"], fields["size"], fields["sha256"])


@frozen
class Listing:
    """The list of all files of one game version."""

    build: str
    files: FileTable = field(repr=False)
    program: str = ""  # the file that starts the game; empty: not set by the owner

    @property
    def has_program(self) -> bool:
        """True if one of the files can start the game."""
        return bool(self.program) or any(file.path.lower().endswith(".exe") for file in self.files)

    @property
    def total(self) -> int:
        """The total size of all files, in bytes."""
        return sum(file.size for file in self.files)


def read_listing(text: bytes) -> Listing:
    """Parse the list in a reply, or raise BadListing.

    Each entry is parsed separately: parsing a hostile list as a whole could take thirty times as
    much memory as its text.
    """
    opening = _FILES.search(text, 0, LONGEST_REST)
    if opening is None:
        raise BadListing("it has no list of files")
    files, end = _read_files(text, opening.end())
    if len(text) - end > LONGEST_REST:
        raise BadListing("it has too much data besides the files")
    try:
        value = json.parse(text[: opening.end()] + text[end:])
    except json.BadJson:
        raise BadListing("it is not JSON") from None
    if not isinstance(value, dict) or value.get("files") != []:
        raise BadListing("it has no list of files")
    if same_place(entry.path for entry in files):
        raise BadListing("two of its files have the same path on this system")
    build, program = value.get("build"), value.get("program")
    listed = any(entry.path == program for entry in files)
    return Listing(
        plain(build[:LONGEST_BUILD]) if isinstance(build, str) else "",
        files,
        str(program) if listed else "",  # only a verified file of the game is started
    )


def _read_files(text: bytes, at: int) -> tuple[FileTable, int]:
    """Parse the JSON array that begins at ``at``; return its files and the array's end."""
    files = FileTable(text, array("I"))
    size_of_paths = 0
    if empty := _NO_FILES.match(text, at):
        return files, empty.start(1)
    while len(files) < MOST_FILES:
        entry = _ENTRY.match(text, at, at + LONGEST_ENTRY)
        if entry is None:
            raise BadListing("it has an entry that cannot be read")
        files.bounds.extend(entry.span(1))
        size_of_paths += getsizeof(_checked_path(entry[1]))
        if size_of_paths > LARGEST_PATHS:
            raise BadListing("its paths are too long")
        if entry[2] == b"]":
            return files, entry.start(2)
        at = entry.end()
    raise BadListing("it has too many files")


def _checked_path(raw: bytes) -> str:
    """Return the path in a file's entry, or raise BadListing if the entry is not valid."""
    try:
        fields = json.parse(raw)
    except json.BadJson:
        raise BadListing("it is not JSON") from None
    path, size, sha256 = fields.get("path"), fields.get("size"), fields.get("sha256")
    if not isinstance(path, str) or not is_safe(path):
        raise BadListing("it has a path that must not be written")
    if type(size) is not int or not 0 <= size <= LARGEST:
        raise BadListing("it has an invalid size")
    if not isinstance(sha256, str) or not _SHA256.match(sha256):
        raise BadListing("it has an invalid hash")
    return path
