"""Renames, deletions and long paths on Windows.

A virus scanner opens new files for a moment, and Windows refuses to move or delete an open file.
Windows also refuses to replace a read-only file, such as one copied from a disc.
"""

import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

from svcserver.kernel.system import system

PATIENCE_S = 5.0
PAUSE_S = 0.05
_PREFIX, _SHARE = "\\\\?\\", "\\\\?\\UNC\\"


def replace(source: Path, target: Path) -> None:
    """Rename ``source``; replace ``target``, even if it is read-only or briefly locked."""
    patiently(lambda: source.replace(target), target)


def unlink(path: Path) -> None:
    """Delete the file ``path`` if it exists, even if it is read-only or briefly locked."""
    patiently(lambda: path.unlink(missing_ok=True), path)


def do_all(*steps: Callable[[], object]) -> None:
    """Call all ``steps``, even if some fail; then raise one OSError with the reasons."""
    reasons = []
    for step in steps:
        try:
            step()
        except OSError as error:
            reasons.append(str(error))
    if reasons:
        raise OSError("; ".join(reasons))


def patiently(
    work: Callable[[], object],
    target: Path,
    *,
    platform: str = sys.platform,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Run ``work``; on Windows, repeat it for ``PATIENCE_S`` while permission is denied.

    This blocks. Call it in a thread if ``target`` is a folder or a large file.
    """
    now = system().monotonic
    until = now() + PATIENCE_S
    while True:
        try:
            work()
        except PermissionError:
            if platform != "win32" or now() >= until:
                raise
            _make_writable(target)
            pause(PAUSE_S)
        else:
            return


def _make_writable(path: Path) -> None:
    """Clear the read-only attribute of a file, if it has one."""
    try:
        if not path.stat().st_mode & stat.S_IWRITE:
            os.chmod(path, stat.S_IWRITE)
    except OSError:
        return  # the next attempt reports the error


def long_path(path: Path, platform: str = sys.platform) -> Path:
    """Return ``path`` in the form in which Windows accepts more than 260 characters.

    On other systems, ``path`` is returned unchanged.
    """
    return Path(extended(os.path.abspath(path))) if platform == "win32" else path


def plain_path(path: str) -> str:
    """Return a path as the player knows it: without the prefix that ``extended`` adds."""
    if path.startswith(_SHARE):
        return "\\\\" + path.removeprefix(_SHARE)
    return path.removeprefix(_PREFIX)


def extended(path: str) -> str:
    r"""Return an absolute Windows path with the prefix ``\\?\``, which lifts the length limit."""
    if path.startswith(_PREFIX):
        return path
    drive = PureWindowsPath(path).drive
    if drive.startswith("\\\\"):
        return _SHARE + path[2:]
    return _PREFIX + path if drive else path
