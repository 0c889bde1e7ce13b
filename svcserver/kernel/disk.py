"""Private files that are replaced atomically, and durable writes that survive a power failure."""

import os
from pathlib import Path

from svcserver.kernel import json


def replace_json(path: Path, fresh: Path, value: object) -> None:
    """Write ``value`` to the new private file ``fresh``, and rename this file to ``path``."""
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dump(value))
    fresh.replace(path)


def sync_folder(folder: Path) -> None:
    """Flush a folder's file names to the disk; do nothing on systems that cannot open folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(file: Path) -> None:
    """Flush a file's content to the disk."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def sync_tree(folder: Path) -> None:
    """Flush a folder's files and file names to the disk, including subfolders."""
    for entry in folder.iterdir():
        if entry.is_dir():
            sync_tree(entry)
        else:
            sync_file(entry)
    sync_folder(folder)
