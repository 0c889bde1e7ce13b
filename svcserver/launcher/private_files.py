"""Files that only this user can read, replaced atomically."""

import os
import sys
from pathlib import Path

from svcserver.launcher import windows
from svcserver.launcher.locked_files import replace, unlink


def make_private_folder(folder: Path) -> None:
    """Create ``folder`` with mode 0700, on systems that have modes."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _create(path: Path) -> int:
    """Create a file that only this user can open; return its descriptor for writing."""
    if sys.platform == "win32":
        return windows.create_private(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def write_private(path: Path, content: bytes) -> None:
    """Replace ``path`` atomically with a file that only this user can read.

    If this program crashes meanwhile, the old file is still there.
    """
    make_private_folder(path.parent)
    temporary = path.with_name(path.name + ".new")
    unlink(temporary)
    handle = _create(temporary)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    replace(temporary, path)
