"""Hostile files for ``svcctl backup restore`` that would use too much memory, time or disk.

The command must exit with a one-line error message and leave no files behind. The child process
gets only as much memory as a normal restore needs, so unbounded memory use ends in a traceback.
"""

import gzip
import os
import resource
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import pytest

from svcserver.ctl.backup import archive
from tests.ctl.backup.test_hostile_archives import contents, entry, packed

MEMORY = 200 << 20
LARGE = 200 << 20
DEADLINE_S = 120


def compressed(target: BinaryIO, pieces: Iterable[bytes]) -> None:
    deflate = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        target.write(deflate.compress(piece))
    target.write(deflate.flush())


def zeros(size: int) -> Iterable[bytes]:
    piece = bytes(1 << 20)
    return (piece for _ in range(size >> 20))


def head(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    made = tarfile.TarInfo(name)
    made.size, made.type = size, kind
    return made.tobuf(tarfile.USTAR_FORMAT)


def blocks(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return the tar blocks of these entries, without the end-of-archive marker."""
    return b"".join(first.tobuf() + data + bytes(-len(data) % 512) for first, data in entries)


LISTED = blocks(contents())


def long_name(target: BinaryIO) -> None:
    compressed(target, [head("x", LARGE, tarfile.GNUTYPE_LONGNAME), *zeros(LARGE)])


def long_pax_header(target: BinaryIO) -> None:
    compressed(target, [LISTED, head("x", LARGE, tarfile.XHDTYPE), *zeros(LARGE)])


def sparse_map(target: BinaryIO) -> None:
    odd, _ = entry(
        archive.DATABASE, b"", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    )
    odd.size = LARGE
    made = odd.tobuf(tarfile.PAX_FORMAT)
    compressed(target, [LISTED, made, b"99999999\n", *zeros(LARGE)])


def zeros_first(target: BinaryIO) -> None:
    compressed(target, [*zeros(LARGE), LISTED])


def zeros_as_contents(target: BinaryIO) -> None:
    compressed(target, [head(archive.CONTENTS, LARGE), *zeros(LARGE)])


def zeros_as_database(target: BinaryIO) -> None:
    compressed(target, [LISTED, head(archive.DATABASE, LARGE), *zeros(LARGE), bytes(1024)])


def zeros_as_settings(target: BinaryIO) -> None:
    compressed(target, [LISTED, head("files/metagame.env", LARGE), *zeros(LARGE), bytes(1024)])


def zeros_behind_the_end(target: BinaryIO) -> None:
    good = gzip.decompress(
        packed(contents(files={archive.DATABASE: archive.digest_of(b"")}), entry(archive.DATABASE))
    )
    compressed(target, [good, *zeros(LARGE)])


def many_members(target: BinaryIO) -> None:
    target.write(gzip.compress(b"") * 2_000_000)


def nested_folders(target: BinaryIO) -> None:
    name = "files/" + "a/" * 2000 + "x"
    target.write(packed(contents(files={archive.DATABASE: "0" * 64, name: "0" * 64}), entry(name)))


def age_header(target: BinaryIO) -> None:
    target.write(b"age-encryption.org/v1\n-> X25519 " + b"A" * 43 + b"\n")
    target.truncate(LARGE)


HOSTILE: list[Callable[[BinaryIO], None]] = [
    long_name,
    long_pax_header,
    sparse_map,
    zeros_first,
    zeros_as_contents,
    zeros_as_database,
    zeros_as_settings,
    zeros_behind_the_end,
    many_members,
    nested_folders,
    age_header,
]


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


# slow: hundreds of megabytes are made and read
@pytest.mark.live
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda make: make.__name__)
def test_a_hostile_backup_ends_in_one_line(
    hostile: Callable[[BinaryIO], None], tmp_path: Path
) -> None:
    file, into, scratch = tmp_path / "one.tar.gz", tmp_path / "host", tmp_path / "scratch"
    scratch.mkdir()
    with file.open("wb") as target:
        hostile(target)
    command = [sys.executable, "-m", "svcserver.ctl.main", "backup", "restore"]
    ran = subprocess.run(
        [*command, str(file), "--into", str(into)],
        env={**os.environ, "TMPDIR": str(scratch), "BACKUP_PASSPHRASE": "correct horse"},
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr[-2000:]
    [line] = ran.stderr.splitlines()
    assert line.startswith(f"svcctl: {file}: "), line
    assert len(line) < len(str(file)) + 200
    assert not into.exists() or list(into.iterdir()) == []
    assert list(scratch.iterdir()) == []
