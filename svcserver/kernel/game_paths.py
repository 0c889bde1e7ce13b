"""The rules for paths in a list of game files.

The host applies them when it writes the list, and each launcher when it reads the list.

If Windows would interpret a path in another way than other systems, the path is rejected on every
system. So a list means the same everywhere.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from svcserver.kernel.foreign_text import is_plain

MOST_FILES = 200_000
LONGEST_LIST = 64 * 1024 * 1024  # bytes
LARGEST_PATHS = LONGEST_LIST  # bytes in memory; an emoji makes its path four times as large
OWN_FOLDER = ".svc-launcher"  # the launcher's folder inside the game's
_UNSAFE = re.compile(r'[:*?"<>|\\]')
_DEVICE = re.compile(  # "nul .txt" also means the device
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\.|\Z)", re.IGNORECASE
)
_LONGER_IN_LOWER_CASE = "\u0130\u023a\u023e"  # the only letters whose UTF-8 grows
_SHORT = re.compile(r"[^.]{1,6}~\d+(?:\..{0,3})?\Z")  # Windows' short form of a longer name


def is_safe(path: str) -> bool:
    """Return whether a path is inside the game's folder, but not in the launcher's subfolder."""
    parts = path.split("/")
    return (
        0 < len(path) <= 1024
        and not _UNSAFE.search(path)
        and is_plain(path)
        and all(part.strip(" .") and not _DEVICE.match(part) for part in parts)
        and all(part[-1] not in " ." and not _SHORT.match(part) for part in parts)
        and parts[0].lower() != OWN_FOLDER
    )


def _place(path: str) -> bytes:
    """Return a sort key; paths that differ only in upper and lower case have the same key."""
    lower = path.lower().replace("/", "\0")
    for upper in _LONGER_IN_LOWER_CASE:
        lower = lower.replace(upper.lower(), upper)
    return lower.encode()


def same_place(paths: Iterable[str]) -> str:
    """Return a path, in lower case, that is used twice: by two files, or by a file and a folder.

    Returns "" if there is no such path.
    """
    # a set of all folders could take gigabytes
    places = sorted(_place(path) for path in paths)
    for before, after in pairwise(places):
        if before == after or after.startswith(before + b"\0"):
            return before.replace(b"\0", b"/").decode()
    return ""
