"""Files that only this user can read, replaced atomically."""

from __future__ import annotations

import os
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Create ``folder`` with mode 0700, on systems that have modes."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def write_private(path: Path, content: bytes) -> None:
    """Replace ``path`` atomically with a file of mode 0600; a crash keeps the old file."""
    make_private_folder(path.parent)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
