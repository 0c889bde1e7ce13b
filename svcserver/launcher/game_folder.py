"""The game's folder on disk: what is there, what is missing, and what goes into place.

A download grows as ``<hash>.part``; whole and verified it becomes ``<hash>.whole``, so that the
name alone says what need not be fetched again. Only when everything is there are the files moved
to their places. All of this blocks, and runs in a thread.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import define, field, frozen

from svcserver.kernel import json
from svcserver.launcher.listing import OWN_FOLDER, GameFile

PIECE = 1024 * 1024  # bytes read or written at once
SPARE = 64 * 1024 * 1024  # bytes that the disk keeps free besides


class Stopped(Exception):
    """The player has stopped the work."""


class NoRoom(Exception):
    """The disk has too little room; ``needed`` more bytes."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} bytes are needed")
        self.needed = needed


class Damaged(Exception):
    """A downloaded file does not have its hash."""


@define
class Progress:
    """Numbers that the work raises in its thread and others read."""

    bytes_done: int = 0
    bytes_total: int = 0
    files_done: int = 0
    files_total: int = 0
    stop: bool = False

    def add(self, size: int) -> None:
        """Count ``size`` bytes more; raises Stopped once ``stop`` is set."""
        if self.stop:
            raise Stopped
        self.bytes_done += size


@frozen
class Comparison:
    """What a check has found."""

    wrong: tuple[GameFile, ...]  # missing or damaged
    bytes_missing: int  # without what downloads that were cut short have already

    @property
    def whole(self) -> bool:
        """Whether every listed file is there and right."""
        return not self.wrong


Seen = dict[str, tuple[int, int, str]]  # path -> size, time of change, hash


def one_name(folder: Path) -> str:
    """The same text for every path of ``folder``, through whichever links and letter case."""
    return os.path.normcase(os.path.realpath(folder))


@define
class GameFolder:
    """The folder of one host's game files."""

    root: Path
    _seen: Seen | None = field(default=None, init=False, repr=False)

    @property
    def parts(self) -> Path:
        """The folder of downloads that are not whole yet."""
        return self.root / OWN_FOLDER / "parts"

    @property
    def _memory(self) -> Path:
        return self.root / OWN_FOLDER / "seen.json"

    def place(self, path: str) -> Path:
        """Where a file of the list belongs."""
        return self.root.joinpath(*path.split("/"))

    def compare(
        self, files: Sequence[GameFile], progress: Progress, *, thorough: bool = False
    ) -> Comparison:
        """What is missing. A file is hashed again only when it has changed, or ``thorough``."""
        progress.bytes_total = sum(one.size for one in files)
        progress.files_total = len(files)
        seen: Seen = {} if thorough else self._remembered()
        kept: Seen = {}
        wrong: list[GameFile] = []
        for one in files:
            if self._is_right(one, seen, kept, progress):
                progress.files_done += 1
            else:
                wrong.append(one)
        self._remember(kept)
        return Comparison(tuple(wrong), sum(map(self._still_to_come, _distinct(wrong))))

    def _is_right(self, one: GameFile, seen: Seen, kept: Seen, progress: Progress) -> bool:
        place = self.place(one.path)
        try:
            state = place.lstat()
        except OSError:
            progress.add(one.size)
            return False
        right = state.st_size == one.size and place.is_file() and not place.is_symlink()
        mark = (state.st_size, state.st_mtime_ns, one.sha256)
        if right and seen.get(one.path) == mark:
            progress.add(one.size)
        elif right:
            right = file_hash(place, progress) == one.sha256
        else:
            progress.add(one.size)
        if right:
            kept[one.path] = mark
        return right

    def _still_to_come(self, one: GameFile) -> int:
        if self.whole(one).exists():
            return 0
        return max(0, one.size - self.part_size(one))

    # -- downloads -------------------------------------------------------------

    def part(self, one: GameFile) -> Path:
        """Where a file is kept until it is whole, named by its hash."""
        return self.parts / f"{one.sha256}.part"

    def whole(self, one: GameFile) -> Path:
        """Where a downloaded file is kept once it is verified, until it is moved into place."""
        return self.parts / f"{one.sha256}.whole"

    def part_size(self, one: GameFile) -> int:
        """Bytes that an earlier download has left."""
        try:
            return self.part(one).stat().st_size
        except OSError:
            return 0

    def prepare(self, files: Iterable[GameFile]) -> list[GameFile]:
        """Make room for downloads; gives one file for each hash still to come. Raises NoRoom."""
        self.parts.mkdir(parents=True, exist_ok=True)
        files = tuple(files)
        wanted = _distinct(files)
        known = {name for one in wanted for name in (self.part(one).name, self.whole(one).name)}
        for old in self.parts.iterdir():
            if old.name not in known:
                old.unlink()  # of another version of the game
        left = [one for one in wanted if not self.whole(one).exists()]
        copies = sum(one.size for one in files) - sum(one.size for one in wanted)
        needed = sum(map(self._still_to_come, left)) + copies
        lacking = needed + SPARE - shutil.disk_usage(self.parts).free if needed else 0
        if lacking > 0:
            raise NoRoom(lacking)
        return left

    def put_in_place(self, files: Iterable[GameFile], progress: Progress) -> None:
        """Move every verified file to its place; a file that was there is replaced.

        Raises OSError, ENOTEMPTY where a folder is there and something is in it: that is the
        player's, whatever the host's list says.
        """
        groups: dict[str, list[GameFile]] = {}
        for one in files:
            groups.setdefault(one.sha256, []).append(one)
        moved: Seen = self._remembered()
        for same in groups.values():
            source = self.whole(same[0])
            for one in same[1:]:
                progress.add(0)
                copy = source.with_suffix(".copy")
                shutil.copyfile(source, copy)
                self._move(copy, one, moved)
            self._move(source, same[0], moved)
        self._remember(moved)

    def _move(self, source: Path, one: GameFile, moved: Seen) -> None:
        place = self.place(one.path)
        # the outermost first: what is behind a link is not the game's, and stays
        for folder in reversed([*place.parents][: len(one.path.split("/")) - 1]):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                folder.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        source.replace(place)
        state = place.stat()
        moved[one.path] = (state.st_size, state.st_mtime_ns, one.sha256)

    # -- what was seen ---------------------------------------------------------

    def _remembered(self) -> Seen:
        if self._seen is None:
            try:
                read = json.parse(self._memory.read_bytes())
            except (OSError, json.BadJson):
                read = {}
            pairs = read.items() if isinstance(read, dict) else ()
            self._seen = {path: tuple(mark) for path, mark in pairs if _is_mark(mark)}
        return dict(self._seen)

    def _remember(self, seen: Seen) -> None:
        self._seen = dict(seen)
        if not self.root.is_dir():
            return
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._memory.with_suffix(".new")
        fresh.write_bytes(json.dump({path: list(mark) for path, mark in seen.items()}))
        fresh.replace(self._memory)


@define
class Growing:
    """A file that is being downloaded; its hash grows with it."""

    folder: GameFolder
    file: GameFile
    size: int = field(default=0, init=False)
    _hash: hashlib._Hash = field(factory=hashlib.sha256, init=False, repr=False)

    def resume(self, progress: Progress) -> None:
        """Read what an earlier download has left, so that it need not come again."""
        path = self.folder.part(self.file)
        if self.folder.part_size(self.file) > self.file.size:
            path.unlink()
        self._hash, self.size = hashlib.sha256(), 0
        try:
            with path.open("rb") as file:
                while data := file.read(PIECE):
                    progress.add(len(data))
                    self._hash.update(data)
                    self.size += len(data)
        except FileNotFoundError:
            return

    def write(self, data: bytes) -> None:
        """Add ``data``; raises OSError where the disk is full."""
        with self.folder.part(self.file).open("ab") as file:
            file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def finish(self) -> None:
        """Verify, and name it whole; raises Damaged, and begins anew, where it is another one.

        The disk is asked as well: the hash is of what came, whatever has become of the file.
        """
        path = self.folder.part(self.file)
        if not path.exists():
            path.touch()  # an empty file
        sizes = {self.size, path.stat().st_size}
        if sizes != {self.file.size} or self._hash.hexdigest() != self.file.sha256:
            path.unlink()
            raise Damaged(self.file.path)
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        path.replace(self.folder.whole(self.file))


def file_hash(path: Path, progress: Progress) -> str:
    """The SHA-256 of a file, counting the bytes read."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(PIECE):
            progress.add(len(data))
            found.update(data)
    return found.hexdigest()


def _distinct(files: Iterable[GameFile]) -> list[GameFile]:
    """One file for each hash: equal content is downloaded once."""
    return list({one.sha256: one for one in files}.values())


def _is_mark(mark: object) -> bool:
    return isinstance(mark, list) and [type(one) for one in mark] == [int, int, str]
