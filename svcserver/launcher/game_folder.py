"""The game's folder on disk: finds present and missing files, and moves downloads into place.

A download is written to ``<hash>.part`` and renamed to ``<hash>.whole`` once it is verified. So the
name alone shows which downloads are complete. When all files are complete, they are moved to their
places. The functions that access files block, so they run in a thread.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import define, field, frozen

from svcserver.kernel import json
from svcserver.kernel.game_paths import OWN_FOLDER
from svcserver.launcher.listing import GameFile
from svcserver.launcher.locked_files import long_path, replace, unlink

PIECE = 1024 * 1024  # bytes per read or write
SPARE = 64 * 1024 * 1024  # bytes that stay free on the disk


class Stopped(Exception):
    """The error when the player has stopped the work."""


class NoRoom(Exception):
    """The error when the disk is too full; ``needed`` is the number of bytes to free."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} bytes are needed")
        self.needed = needed


class Damaged(Exception):
    """The error when a downloaded file does not match its hash."""


@define
class Progress:
    """The counters of a running check or download; a worker thread updates them."""

    bytes_done: int = 0
    bytes_total: int = 0
    files_done: int = 0
    files_total: int = 0
    stop: bool = False

    def add(self, size: int) -> None:
        """Count ``size`` bytes; raise Stopped once ``stop`` is set."""
        if self.stop:
            raise Stopped
        self.bytes_done += size


@frozen
class Comparison:
    """The result of comparing the folder with the host's list of files."""

    wrong: tuple[GameFile, ...]  # missing or damaged
    bytes_missing: int  # without the bytes of incomplete downloads

    @property
    def whole(self) -> bool:
        """True if every listed file is present and correct."""
        return not self.wrong


FileMarks = dict[str, tuple[int, int, str]]  # path -> size, time of change, hash


def one_name(folder: Path) -> str:
    """Return the folder's canonical name: without links, and on Windows in lower case."""
    return os.path.normcase(os.path.realpath(folder))


@define
class GameFolder:
    """The folder with one host's game files."""

    root: Path
    _marks: FileMarks | None = field(default=None, init=False, repr=False)

    @property
    def parts(self) -> Path:
        """The folder for incomplete downloads."""
        return self._long / OWN_FOLDER / "parts"

    @property
    def _memory(self) -> Path:
        return self._long / OWN_FOLDER / "seen.json"

    @property
    def _long(self) -> Path:
        return long_path(self.root)

    def place(self, path: str) -> Path:
        """Return the path of a listed file in the game's folder."""
        return self._long.joinpath(*path.split("/"))

    def compare(
        self, files: Sequence[GameFile], progress: Progress, *, thorough: bool = False
    ) -> Comparison:
        """Compare the folder with the list.

        If ``thorough`` is true, every file is read again; otherwise, only files whose size or time
        has changed.
        """
        progress.bytes_total = sum(file.size for file in files)
        progress.files_total = len(files)
        known: FileMarks = {} if thorough else self._remembered()
        confirmed: FileMarks = {}
        wrong: list[GameFile] = []
        for file in files:
            if self._is_right(file, known, confirmed, progress):
                progress.files_done += 1
            else:
                wrong.append(file)
        self._remember(confirmed)
        return Comparison(tuple(wrong), sum(map(self._still_to_come, _distinct(wrong))))

    def _is_right(
        self, file: GameFile, known: FileMarks, confirmed: FileMarks, progress: Progress
    ) -> bool:
        place = self.place(file.path)
        try:
            state = place.lstat()
        except OSError:
            progress.add(file.size)
            return False
        right = state.st_size == file.size and place.is_file() and not place.is_symlink()
        mark = (state.st_size, state.st_mtime_ns, file.sha256)
        if right and known.get(file.path) == mark:
            progress.add(file.size)
        elif right:
            right = file_hash(place, progress) == file.sha256
        else:
            progress.add(file.size)
        if right:
            confirmed[file.path] = mark
        return right

    def _still_to_come(self, file: GameFile) -> int:
        if self.whole(file).exists():
            return 0
        return max(0, file.size - self.part_size(file))

    # -- downloads -------------------------------------------------------------

    def part(self, file: GameFile) -> Path:
        """Return the path of a file's incomplete download, named by the file's hash."""
        return self.parts / f"{file.sha256}.part"

    def whole(self, file: GameFile) -> Path:
        """Return the path of a verified download that has not yet been moved into place."""
        return self.parts / f"{file.sha256}.whole"

    def part_size(self, file: GameFile) -> int:
        """Return the size in bytes of a file's incomplete download; 0 if there is none."""
        try:
            return self.part(file).stat().st_size
        except OSError:
            return 0

    def prepare(self, files: Iterable[GameFile]) -> list[GameFile]:
        """Delete outdated downloads; return the files to download, or raise NoRoom.

        Files with the same hash are downloaded once.
        """
        self.parts.mkdir(parents=True, exist_ok=True)
        files = tuple(files)
        wanted = _distinct(files)
        known = {name for file in wanted for name in (self.part(file).name, self.whole(file).name)}
        for old in self.parts.iterdir():
            if old.name not in known:
                unlink(old)  # from another version of the game
        left = [file for file in wanted if not self.whole(file).exists()]
        copies = sum(file.size for file in files) - sum(file.size for file in wanted)
        needed = sum(map(self._still_to_come, left)) + copies
        lacking = needed + SPARE - shutil.disk_usage(self.parts).free if needed else 0
        if lacking > 0:
            raise NoRoom(lacking)
        return left

    def put_in_place(self, files: Iterable[GameFile], progress: Progress) -> None:
        """Move every verified file to its place and replace any older file there.

        Raises OSError (ENOTEMPTY) if there is a non-empty folder where a file must go.
        """
        groups: dict[str, list[GameFile]] = {}
        for file in files:
            groups.setdefault(file.sha256, []).append(file)
        moved: FileMarks = self._remembered()
        for same in groups.values():
            source = self.whole(same[0])
            for file in same[1:]:
                progress.add(0)
                copy = source.with_suffix(".copy")
                shutil.copyfile(source, copy)
                self._move(copy, file, moved)
            self._move(source, same[0], moved)
        self._remember(moved)

    def _move(self, source: Path, file: GameFile, moved: FileMarks) -> None:
        place = self.place(file.path)
        # outer folders first: a link is removed, but no file behind it, which is not the game's
        for folder in reversed([*place.parents][: len(file.path.split("/")) - 1]):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                unlink(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        replace(source, place)
        state = place.stat()
        moved[file.path] = (state.st_size, state.st_mtime_ns, file.sha256)

    # -- remembered files ---------------------------------------------------------

    def _remembered(self) -> FileMarks:
        if self._marks is None:
            try:
                read = json.parse(self._memory.read_bytes())
            except (OSError, json.BadJson):
                read = {}
            pairs = read.items() if isinstance(read, dict) else ()
            self._marks = {path: tuple(mark) for path, mark in pairs if _is_mark(mark)}
        return dict(self._marks)

    def _remember(self, marks: FileMarks) -> None:
        self._marks = dict(marks)
        if not self.root.is_dir():
            return
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._memory.with_suffix(".new")
        fresh.write_bytes(json.dump({path: list(mark) for path, mark in marks.items()}))
        replace(fresh, self._memory)


@define
class PartialFile:
    """A file that is being downloaded, with a running hash of the bytes received so far."""

    folder: GameFolder
    file: GameFile
    size: int = field(default=0, init=False)
    _hash: hashlib._Hash = field(factory=hashlib.sha256, init=False, repr=False)

    def resume(self, progress: Progress) -> None:
        """Read and hash the bytes that an earlier download has saved."""
        path = self.folder.part(self.file)
        if self.folder.part_size(self.file) > self.file.size:
            unlink(path)
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
        """Append ``data`` to the file; raise OSError if the disk is full."""
        with self.folder.part(self.file).open("ab") as file:
            file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def finish(self) -> None:
        """Verify the file and mark it as complete, or delete it and raise Damaged."""
        path = self.folder.part(self.file)
        if not path.exists():
            path.touch()  # an empty file
        sizes = {self.size, path.stat().st_size}
        if sizes != {self.file.size} or self._hash.hexdigest() != self.file.sha256:
            unlink(path)
            raise Damaged(self.file.path)
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        replace(path, self.folder.whole(self.file))


def file_hash(path: Path, progress: Progress) -> str:
    """Return the SHA-256 of a file, and add its size to ``progress``."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(PIECE):
            progress.add(len(data))
            digest.update(data)
    return digest.hexdigest()


def _distinct(files: Iterable[GameFile]) -> list[GameFile]:
    """Return one file per hash, so that equal content is downloaded once."""
    return list({file.sha256: file for file in files}.values())


def _is_mark(mark: object) -> bool:
    return isinstance(mark, list) and [type(part) for part in mark] == [int, int, str]
