"""What a metagame asks of the stack that runs it: a file in the folder in which both run.

The stack looks for it every other second, and takes it away before it acts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from svcserver.kernel import json
from svcserver.kernel.recent import RECENT

WISH_FILE = "stack-wish.json"
FRESH_S = 60.0  # an older wish is of another evening
MOST = 1024  # bytes
WISHES = ("stop", "restart")


def has_stack(folder: Path, since: float) -> bool:
    """Whether a stack has written in ``folder`` what its services said, after ``since``."""
    try:
        return (folder / RECENT).stat().st_mtime >= since
    except OSError:
        return False


def wish(folder: Path, what: str, now: float) -> None:
    """Ask for one of ``WISHES``; raises OSError."""
    fresh = folder / f"{WISH_FILE}.new"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dump({"wish": what, "at": now}))
    fresh.replace(folder / WISH_FILE)


def take(folder: Path, now: float) -> str | None:
    """What is asked for, once; None for nothing, or what is old or no wish."""
    found = look(folder, now)
    with suppress(FileNotFoundError):
        (folder / WISH_FILE).unlink()  # what cannot be taken away would be done again and again
    return found


def look(folder: Path, now: float) -> str | None:
    """What is asked for and not yet taken; None for nothing, or what is old or no wish."""
    try:
        with (folder / WISH_FILE).open("rb") as file:
            said = json.parse(file.read(MOST))
        what, at = said["wish"], float(said["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(what) if what in WISHES and abs(now - at) <= FRESH_S else None
