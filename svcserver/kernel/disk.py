"""What is written outlives a machine without power."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk; a system that opens no folders has no such thing."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(file: Path) -> None:
    """Put what a file holds on the disk."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def sync_tree(folder: Path) -> None:
    """Put all that a folder holds on the disk, and the names."""
    for one in folder.iterdir():
        if one.is_dir():
            sync_tree(one)
        else:
            sync_file(one)
    sync_folder(folder)
