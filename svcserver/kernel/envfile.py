"""Changes settings in an env file and keeps all other lines unchanged."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from svcserver.kernel.settings import parse_env_file


def change(path: Path, settings: Mapping[str, str]) -> None:
    """Set these variables in the file; raises OSError.

    A variable that is in the file is changed in its line; a new variable is added at the end. The
    file is replaced atomically, because a service may be reading it. The file's mode and owner are
    kept, because it may contain secrets.
    """
    path = path.resolve()
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    wanted = {name: f"{name}={value}" for name, value in settings.items()}
    rest = dict(wanted)
    result = []
    for line in lines:
        name = _name(line)
        if name not in wanted:
            result.append(line)
        elif name in rest:
            result.append(rest.pop(name))
    _replace(path, "\n".join([*result, *rest.values(), ""]))


def _name(line: str) -> str:
    """Return the variable that a line sets; empty for other lines."""
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
