"""The marker of a host that is being created, and functions that write the host's files.

``svcctl init`` and ``svcctl backup restore --into`` write the marker first and ``metagame.env``
last, and then remove the marker. After an interruption, even by ``kill -9``, the owner runs the
same command again.
"""

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict, frozen

from svcserver.ctl.output import fail, warn
from svcserver.kernel import json
from svcserver.kernel.disk import sync_folder, sync_tree

NOTE = ".init.json"  # no backup contains hidden names, so no backup replaces these files
WORK, PART = ".init-work", ".init-part"
LAST = "metagame.env"  # the file that makes a folder a host (packaging/image/start)


@frozen
class Begun:
    """The marker file of an unfinished host; ``backup`` is empty unless a backup is restored."""

    data: str
    backup: str = ""
    sha256: str = ""

    def write(self, folder: Path) -> None:
        put(folder / NOTE, json.dump(asdict(self)))

    def cure(self, folder: Path) -> str:
        """Return a one-line message: how to finish or abandon the interrupted work."""
        goal, file = shlex.quote(str(folder)), shlex.quote(self.backup)
        do = f"backup restore {file} --into {goal}" if self.backup else f"init {goal}"
        what = f"the restore of {self.backup}" if self.backup else "the creation of a host"
        return (
            f"{what} in {folder} was interrupted: run svcctl {do} with the same options to "
            f"continue, or empty {folder} to start again"
        )


def read_marker(folder: Path) -> Begun | None:
    """Return the marker of an unfinished command, or None.

    If ``metagame.env`` exists, the command has finished. If the folder contains only the marker,
    there is nothing to finish. In both cases, the marker is removed. Raises Failed if the marker
    cannot be read.
    """
    try:
        note = Begun(**json.parse_deep((folder / NOTE).read_bytes()))
    except FileNotFoundError:
        return None
    except (json.BadJson, TypeError):
        fail(f"{folder / NOTE} is damaged. Empty {folder} and run the command again.")
    if (folder / LAST).exists() or not others(folder):
        clear(folder)
        return None
    return note


def others(folder: Path) -> list[str]:
    """Return the names in the folder, except those of this module's own files."""
    return sorted({path.name for path in folder.iterdir()} - {NOTE, WORK, PART})


def put(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a whole file and sync it to disk; an existing file is replaced atomically."""
    part = path.with_name(PART)
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def place(source: Path, folder: Path) -> None:
    """Move all files below ``source`` into the folder; replace the files of an earlier attempt."""
    sync_tree(source)
    for path in sorted(source.rglob("*"), key=_turn):
        target = folder / path.relative_to(source)
        if path.is_dir():
            target.mkdir(exist_ok=True)
            shutil.copymode(path, target)
        else:
            os.replace(path, target)
    sync_folder(folder)


def _turn(path: Path) -> tuple[int, Path]:
    """Return a file's sort key: env files come late, and ``metagame.env`` comes last."""
    if path.is_dir():
        return 0, path
    return 3 if path.name == LAST else 2 if path.name.endswith(".env") else 1, path


def clear(folder: Path, *, note: bool = True) -> None:
    """Remove the work folder and, if ``note`` is true, the marker file; warn if that fails."""
    left = folder / WORK
    try:
        if left.exists():
            shutil.rmtree(left)
        for left in (folder / PART, folder / NOTE) if note else ():
            left.unlink(missing_ok=True)
    except OSError as why:
        by_hand = f"rm -r {shlex.quote(str(left))}"
        warn(f"{left} cannot be removed: {why.strerror}; to remove it yourself, run: {by_hand}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder with mode 0700, and lock it during the ``with`` block; raises OSError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        fail(f"{folder} is not a folder. Choose another name.")
    try:
        import fcntl
    except ImportError:  # Windows cannot lock a file in this way
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"another command is making a host in {folder}. Wait until that command ends.")
        yield
    finally:
        os.close(handle)
