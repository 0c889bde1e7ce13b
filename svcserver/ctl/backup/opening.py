"""Opens a backup, and compares what it holds with what was copied."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.engine import URL

from svcserver.ctl.backup import archive
from svcserver.ctl.backup.archive import Contents, DamagedBackup
from svcserver.ctl.backup.making import count
from svcserver.ctl.backup.sealing import Lock, is_closed


def opened(source: Path, lock: Lock, into: Path) -> Contents:
    """Decrypt and unpack; raises DamagedBackup, CannotSeal or OSError."""
    into.mkdir(mode=0o700)
    if not is_closed(source):
        return archive.unpack(source, into)
    clear = into.parent / "clear.tar.gz"
    os.close(os.open(clear, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        lock.open(source, clear)
        return archive.unpack(clear, into)
    finally:
        clear.unlink()


def same(contents: Contents, url: URL) -> None:
    """Compare the restored database with the counts of the original; raises DamagedBackup."""
    present, expected = count(url), contents.counted
    for table, rows in expected.tables.items():
        if present.tables.get(table) != rows:
            raise DamagedBackup(
                f"its table {table} has {present.tables.get(table, 0)} rows, and had {rows}"
            )
    if present.characters != expected.characters:
        raise DamagedBackup("its characters are not those that were copied")
