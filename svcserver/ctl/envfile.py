"""Changes settings in an env file, keeping all other lines as they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from svcserver.kernel.settings import parse_env_file

_NONE: Mapping[str, str] = {}


def change(path: Path, settings: Mapping[str, str], notes: Mapping[str, str] = _NONE) -> None:
    """Set these variables, each in its line or at the end; raises OSError.

    A note is written as a comment ``# name: text``. The file is replaced atomically, since a
    service may be starting, and keeps its mode and owner, since it may hold secrets.
    """
    path = path.resolve()
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    wanted = {f"# {name}": f"# {name}: {text}" for name, text in notes.items()}
    wanted |= {name: f"{name}={value}" for name, value in settings.items()}
    rest = dict(wanted)
    kept = []
    for line in lines:
        name = _name(line)
        if name not in wanted:
            kept.append(line)
        elif name in rest:
            kept.append(rest.pop(name))
    _replace(path, "\n".join([*kept, *rest.values(), ""]))


def note(text: str, name: str) -> str | None:
    """The text of the note of that name in an env file's ``text``; None without one."""
    start = f"# {name}: "
    found = [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]
    return found[-1] if found else None


def _name(line: str) -> str:
    """The variable or note that a line holds; empty for other lines."""
    if line.startswith("# "):
        return line.partition(":")[0]
    return next(iter(parse_env_file(line)), "")


def _replace(path: Path, text: str) -> None:
    was = path.stat()
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        if os.geteuid() == 0:
            os.fchown(file.fileno(), was.st_uid, was.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
