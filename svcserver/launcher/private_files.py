"""Files that only this user may read, replaced whole."""

from __future__ import annotations

import os
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Make ``folder`` with mode 0700 where the system knows modes."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def write_private(path: Path, content: bytes) -> None:
    """Replace ``path`` by a file of mode 0600; a crash leaves the old one or the new one."""
    make_private_folder(path.parent)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
