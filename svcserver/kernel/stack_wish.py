"""The metagame's requests to the stack that runs it: a file in the folder of both.

The stack checks for it every other second, and deletes it before it acts.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from svcserver.kernel import json
from svcserver.kernel.disk import replace_json
from svcserver.kernel.recent import RECENT

WISH_FILE = "stack-wish.json"
FRESH_S = 60.0  # older requests are ignored
MOST = 1024  # bytes
WISHES = ("stop", "restart")


def has_stack(folder: Path, since: float) -> bool:
    """Return whether a stack has written its services' lines in ``folder`` after ``since``."""
    try:
        return (folder / RECENT).stat().st_mtime >= since
    except OSError:
        return False


def wish(folder: Path, what: str, now: float) -> None:
    """Ask for one of ``WISHES``; raises OSError."""
    replace_json(folder / WISH_FILE, folder / f"{WISH_FILE}.new", {"wish": what, "at": now})


def take(folder: Path, now: float) -> str | None:
    """Return the request and delete it; None for no request, or an old or unknown one."""
    request = look(folder, now)
    with suppress(FileNotFoundError):
        (folder / WISH_FILE).unlink()  # a file that stays would be acted on again and again
    return request


def look(folder: Path, now: float) -> str | None:
    """Return the request that is not yet taken; None for none, or an old or unknown one."""
    try:
        with (folder / WISH_FILE).open("rb") as file:
            content = json.parse(file.read(MOST))
        what, at = content["wish"], float(content["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(what) if what in WISHES and abs(now - at) <= FRESH_S else None
