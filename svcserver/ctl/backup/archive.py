"""The backup file: a tar.gz with the database, the host's small files and a list of contents.

The list is the first entry, ``backup.json``. It has the SHA-256 of every later entry, the number of
rows in each table, and a digest of all players' characters. Restored data must match the list.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from errno import ENOSPC
from pathlib import Path
from typing import Any, BinaryIO

import attrs
from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.digits import MAX_DIGITS, whole_in

FORM = 1
CONTENTS = "backup.json"
DATABASE = "database"
FILES = "files/"
CHUNK = 1 << 20
MAX_CONTENTS = 4 << 20  # bytes of backup.json
LEVEL = 6  # of gzip's compression
RATIO = 1032  # the best ratio of DEFLATE
PIECE = 64 * 1024  # bytes read from the file at a time
MAX_HEADER = 16 * 1024  # bytes of an extended header, which holds a long name or a large size
LARGEST = 16 << 20  # bytes of a small file
LARGEST_ENV = 1 << 20  # bytes of an env file, which is rewritten in memory
MOST_FILES = 2000
DEEPEST, LONGEST = 32, 4096  # maximum number of folders above a file; maximum bytes of a path
KINDS = ("sqlite", "postgresql")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_RECORD = re.compile(rb"([1-9][0-9]{0,4}) (path|size)=")


class DamagedBackup(Exception):
    """The error for a file that is not a valid backup; ``str()`` is the reason."""


@frozen
class DatabaseCounts:
    """The number of rows in each table of a database, and a digest of all players' characters."""

    tables: Mapping[str, int]
    characters: str


@frozen
class Contents:
    """The list of a backup's contents, which the backup holds as ``backup.json``."""

    version: str
    made: float
    kind: str  # sqlite, or postgresql for a dump
    folder: str  # the folder of the host's settings
    data: str  # the folder where the host's components ran
    secrets: bool
    counted: DatabaseCounts
    files: Mapping[str, str]  # the name of each entry, and its SHA-256
    left_out: Sequence[str] = field(factory=tuple)


def pack(target: Path, contents: Contents, parts: Mapping[str, Path | bytes]) -> None:
    """Write the archive; ``contents`` must hold the digests of ``parts``. Raises OSError."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        os.fdopen(handle, "wb") as file,
        tarfile.open(fileobj=file, mode="w:gz", compresslevel=LEVEL) as archive,
    ):
        listing = json.dump({"form": FORM, **attrs.asdict(contents)})
        _add(archive, CONTENTS, io.BytesIO(listing), len(listing))
        for name, part in parts.items():
            if isinstance(part, bytes):
                _add(archive, name, io.BytesIO(part), len(part))
            else:
                with part.open("rb") as source:
                    _add(archive, name, source, os.fstat(source.fileno()).st_size)
        archive.close()
        file.flush()
        os.fsync(file.fileno())


def _add(archive: tarfile.TarFile, name: str, source: Any, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, int(time.time())
    archive.addfile(entry, source)


def unpack(source: Path, into: Path) -> Contents:
    """Write all entries into the folder ``into``; raises DamagedBackup or OSError.

    Each entry's digest is checked. Only files that ``backup.json`` lists are written, and no file
    is written outside ``into``. Memory use is bounded, and the entries must fit into the free disk
    space.
    """
    into.mkdir(mode=0o700, exist_ok=True)
    try:
        with source.open("rb") as file:
            return _unpack(ArchiveReader(file), into)
    except (tarfile.TarError, EOFError, zlib.error) as why:
        problem = str(why) or "the file is cut off"
        raise DamagedBackup(f"the backup cannot be read to its end: {problem}") from None


def _unpack(archive: ArchiveReader, into: Path) -> Contents:
    contents = _contents(archive)
    missing = dict(contents.files)
    for name, size in archive.entries():
        wanted = missing.pop(name, None)
        if wanted is None:
            raise DamagedBackup(f"{name[:80]!r} is not in the backup's list of contents")
        if name != DATABASE and size > (LARGEST_ENV if name.endswith(".env") else LARGEST):
            raise DamagedBackup(f"{name[:80]!r} is larger than a backup allows")
        if size > shutil.disk_usage(into).free:
            why = f"{name[:80]!r} needs {size >> 20} MB, but there is not enough free disk space"
            raise OSError(ENOSPC, why)
        path = into / safe(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as file:
            for piece in archive.pieces(size):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != wanted:
            raise DamagedBackup(f"{name[:80]!r} has changed since the backup was made")
    if missing:
        raise DamagedBackup(f"{min(missing)[:80]!r} is missing in the backup")
    return contents


def _contents(archive: ArchiveReader) -> Contents:
    name, size = next(archive.entries(), ("", 0))
    if name != CONTENTS or size > MAX_CONTENTS:
        raise DamagedBackup("the file is not a backup of a host")
    try:
        listing = json.parse(b"".join(archive.pieces(size)))
        if listing.pop("form") != FORM:
            raise DamagedBackup("the backup has the format of another svcserver version")
        return _checked(Contents(counted=DatabaseCounts(**listing.pop("counted")), **listing))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DamagedBackup("the backup's list of contents cannot be read") from None


def _checked(contents: Contents) -> Contents:
    """Return ``contents`` unchanged if every field is valid; raises ValueError or DamagedBackup."""
    counted = contents.counted
    texts = [contents.version, contents.kind, counted.characters, contents.folder, contents.data]
    numbers = list(counted.tables.values())
    fits = (
        all(type(text) is str and "\0" not in text for text in [*texts, *contents.left_out])
        and all(type(number) is int for number in numbers)
        and type(contents.made) in (int, float)
        and type(contents.secrets) is bool
        and type(contents.left_out) in (list, tuple)
        and type(contents.files) is dict
        and all(type(digest) is str and _SHA256.match(digest) for digest in contents.files.values())
        and all(_is_place(place) for place in (contents.folder, contents.data))
    )
    if not fits or contents.kind not in KINDS or DATABASE not in contents.files:
        raise ValueError("a field of the list of contents has an invalid value")
    if len(contents.files) > MOST_FILES + 1:
        raise DamagedBackup("the backup lists too many files")
    for name in contents.files:
        if name != DATABASE and not name.startswith(FILES):
            raise DamagedBackup(f"the backup lists {name[:80]!r}, which is not allowed")
        safe(name)
    return contents


def _is_place(path: str) -> bool:
    """Return whether a path is valid for a host's folder: absolute, not ``/``, not too long."""
    return os.path.isabs(path) and len(Path(path).parts) > 1 and len(path) <= LONGEST


def safe(name: str) -> Path:
    """Return ``name`` as a relative path; raises DamagedBackup if a backup must not contain it."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise DamagedBackup(f"{name[:80]!r} leads out of the folder")
    if not is_kept(path):
        raise DamagedBackup(f"{name[:80]!r} is not an allowed name in a backup")
    return path


def is_kept(path: Path) -> bool:
    """Return whether a backup can contain a file with this relative path."""
    parts, text = path.parts, str(path)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # file names may be any bytes, JSON is UTF-8
        return False
    hidden = any(part.startswith(".") for part in parts)
    return not hidden and len(parts) <= DEEPEST and size <= LONGEST and "\0" not in text


class ArchiveReader:
    """A reader for a tar.gz written by ``pack``; it accepts only regular files and short headers.

    ``tarfile`` has no limit for the size of a header.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._stream = io.BufferedReader(_Inflated(file), CHUNK)
        self._most = RATIO * os.fstat(file.fileno()).st_size
        self._left = 0  # unread bytes of the current entry, with its padding

    def entries(self) -> Iterator[tuple[str, int]]:
        """Yield the name and size of each entry; raises DamagedBackup."""
        records: dict[str, str] = {}
        while any(block := self._next_block()):
            head = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if head.size < 0:
                raise DamagedBackup("the backup has an entry with a negative size")
            if head.type == tarfile.XHDTYPE and not records:
                records = self._read_records(head.size)
                continue
            if head.type != tarfile.REGTYPE:
                raise DamagedBackup(f"{head.name[:80]!r} is not a regular file")
            name, size = records.get("path", head.name), head.size
            if "size" in records:
                size = whole_in(records["size"], MAX_DIGITS) or 0
            records = {}
            if size > self._most:
                raise DamagedBackup(f"{name[:80]!r} is larger than the whole file can be")
            self._left = size + -size % tarfile.BLOCKSIZE
            yield name, size
        self._end()

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the bytes of the entry that ``entries`` yielded last; raises EOFError."""
        while size:
            piece = self._exactly(min(size, CHUNK))
            size -= len(piece)
            self._left -= len(piece)
            yield piece

    def _next_block(self) -> bytes:
        while self._left:
            self._left -= len(self._exactly(min(self._left, CHUNK)))
        return self._exactly(tarfile.BLOCKSIZE)

    def _read_records(self, size: int) -> dict[str, str]:
        """Return the records of an extended header; they override fields of the next header."""
        if size > MAX_HEADER:
            raise DamagedBackup("the backup has a file name that is too long")
        records = {}
        data = self._exactly(size + -size % tarfile.BLOCKSIZE)[:size]
        while data:
            record = _RECORD.match(data)
            if record is None or not record.end() < int(record[1]) <= len(data):
                raise DamagedBackup("the backup has an unknown header")
            text = data[record.end() : int(record[1]) - 1]
            records[record[2].decode()] = text.decode("utf-8", "surrogateescape")
            data = data[int(record[1]) :]
        return records

    def _exactly(self, size: int) -> bytes:
        piece = self._stream.read(size)
        if len(piece) < size:
            raise EOFError
        return piece

    def _end(self) -> None:
        """Read the archive up to its end, which verifies the checksum.

        Raises DamagedBackup if there are data after the end.
        """
        rest = self._stream.read(tarfile.RECORDSIZE + 1)
        if len(rest) > tarfile.RECORDSIZE or any(rest):
            raise DamagedBackup("the backup has data after its end")


class _Inflated(io.RawIOBase):
    """A reader that decompresses a single-member gzip file on demand."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._inflate = file, zlib.decompressobj(16 + zlib.MAX_WBITS)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        inflate = self._inflate
        while not inflate.eof:
            piece = inflate.unconsumed_tail or self._file.read(PIECE)
            if data := inflate.decompress(piece, len(into)):
                into[: len(data)] = data
                return len(data)
            if not piece:
                raise EOFError
        if inflate.unused_data or self._file.read(1):
            raise DamagedBackup("the backup has data after its end")
        return 0


def digest_of(part: Path | bytes) -> str:
    """Return the SHA-256 of a file or of bytes; raises OSError."""
    digest = hashlib.sha256()
    for piece in [part] if isinstance(part, bytes) else pieces(part):
        digest.update(piece)
    return digest.hexdigest()


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file; raises OSError."""
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece
