"""The backup's file: a tar.gz with the database, the host's small files, and what is in it.

Its first entry, ``backup.json``, names every other with its SHA-256, and says how many rows each
table had and what the characters' documents add up to, so that a restore can be compared.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from svcserver.kernel import json

FORM = 1
CONTENTS = "backup.json"
DATABASE = "database"
FILES = "files/"
CHUNK = 1 << 20
MAX_CONTENTS = 4 << 20  # bytes of backup.json
LEVEL = 6  # of gzip


class Damaged(Exception):
    """The file is no sound backup; ``str()`` says why."""


@frozen
class Counted:
    """What a database held: rows of each table, and a digest of all characters' documents."""

    tables: Mapping[str, int]
    characters: str


@frozen
class Contents:
    """What a backup says of its own contents."""

    version: str
    made: float
    kind: str  # sqlite, or postgresql for a dump
    folder: str  # where the host's settings were
    data: str  # where its components ran
    secrets: bool
    counted: Counted
    files: Mapping[str, str]  # the name of each entry, and its SHA-256
    left_out: Sequence[str] = field(factory=tuple)


def pack(target: Path, contents: Contents, parts: Mapping[str, Path | bytes]) -> None:
    """Write the archive; the digests of ``contents`` must be those of ``parts``; raises OSError."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with (
        os.fdopen(handle, "wb") as file,
        tarfile.open(fileobj=file, mode="w:gz", compresslevel=LEVEL) as archive,
    ):
        said = json.dump({"form": FORM, **attrs.asdict(contents)})
        _add(archive, CONTENTS, io.BytesIO(said), len(said))
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
    """Write every entry below ``into`` and compare it with its digest; raises Damaged or OSError.

    Only names that ``backup.json`` lists are written, and none that leads out of ``into``.
    """
    try:
        with tarfile.open(source, "r:gz") as archive:
            return _unpack(archive, into)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as why:
        raise Damaged(f"it cannot be read to its end ({why})") from None


def _unpack(archive: tarfile.TarFile, into: Path) -> Contents:
    found = iter(archive)
    contents = _contents(archive, next(found, None))
    missing = dict(contents.files)
    for entry in found:
        wanted = missing.pop(entry.name, None)
        if wanted is None or not entry.isreg():
            raise Damaged(f"{entry.name[:80]!r} is in it, which it does not name")
        path = into / safe(entry.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        source: Any = archive.extractfile(entry)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as file:
            while piece := source.read(CHUNK):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != wanted:
            raise Damaged(f"{entry.name} is not as it was written")
    if missing:
        raise Damaged(f"{min(missing)} is missing in it")
    rest: Any = archive.fileobj
    while rest.read(CHUNK):  # to the end of the stream, where gzip's own checksum stands
        pass
    return contents


def _contents(archive: tarfile.TarFile, entry: tarfile.TarInfo | None) -> Contents:
    if entry is None or entry.name != CONTENTS or entry.size > MAX_CONTENTS:
        raise Damaged("it is no backup of a host")
    source: Any = archive.extractfile(entry)
    try:
        said = json.parse(source.read())
        if said.pop("form") != FORM:
            raise Damaged("it is of another version's form")
        counted = Counted(**said.pop("counted"))
        return Contents(counted=counted, **said)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged("its list of contents cannot be read") from None


def safe(name: str) -> Path:
    """A relative path that stays below where it is put; raises Damaged."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise Damaged(f"{name[:80]!r} leads out of the folder")
    return path


def digest_of(part: Path | bytes) -> str:
    """The SHA-256 of a file or of bytes; raises OSError."""
    digest = hashlib.sha256()
    for piece in [part] if isinstance(part, bytes) else pieces(part):
        digest.update(piece)
    return digest.hexdigest()


def pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file; raises OSError."""
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece
