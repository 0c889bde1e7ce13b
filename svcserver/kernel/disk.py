"""Private files that are replaced whole, and durable writes, which survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path

from svcserver.kernel import json


def replace_json(path: Path, fresh: Path, value: object) -> None:
    """Write ``value`` to ``fresh``, which only its owner reads, and rename it to ``path``."""
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dump(value))
    fresh.replace(path)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk; does nothing where folders cannot be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(file: Path) -> None:
    """Write a file's content to the disk."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def sync_tree(folder: Path) -> None:
    """Write a folder to the disk: all files and their names."""
    for entry in folder.iterdir():
        if entry.is_dir():
            sync_tree(entry)
        else:
            sync_file(entry)
    sync_folder(folder)
