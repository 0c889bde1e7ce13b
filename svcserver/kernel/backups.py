"""What is known of a host's backups: one file in its folder, which ``svcctl backup`` writes.

The overview of the owner's page and the stack's alerts read it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from svcserver.kernel import json

STATE_FILE = "backup-state.json"
FORM = 1  # of the file; another is ignored
MOST = 400  # backups that are remembered
STALE_S = 50 * 3600.0  # two nights without a proven backup are a fault
MAX_FAULT = 500  # characters


@frozen
class Backup:
    """One backup file; ``proven`` is when a restore of it was played on, ``fault`` why not."""

    file: str
    made: float
    bytes: int
    sha256: str
    encrypted: bool = False
    secrets: bool = False
    proven: float | None = None
    fault: str | None = None


@frozen
class Backups:
    """All backups that are kept, the newest first, and what the last run said."""

    kept: Sequence[Backup] = ()
    tried: float | None = None
    fault: str | None = None  # of the last run, where it made no backup
    drilled: bool = True  # each night's backup is proven (BACKUP_DRILL)

    @property
    def newest(self) -> Backup | None:
        """The newest backup that is kept; None without any."""
        return self.kept[0] if self.kept else None

    @property
    def proven(self) -> float | None:
        """When a backup was last proven."""
        return max((one.proven for one in self.kept if one.proven is not None), default=None)

    def wrong(self, now: float) -> str | None:
        """What the owner must look at; None when all is well."""
        if self.fault is not None:
            return self.fault
        damaged = next((one for one in self.kept if one.fault is not None), None)
        if damaged is not None:
            return f"{Path(damaged.file).name}: {damaged.fault}"
        if self.newest is None:
            return None
        if not self.drilled and now - self.newest.made > STALE_S:
            return "no backup has been made for two days"
        if self.drilled and now - (self.proven or self.kept[-1].made) > STALE_S:
            return "no backup has been proven for two days"
        return None


def read(folder: Path) -> Backups | None:
    """What is known of the backups of the host in ``folder``; None where nothing is."""
    try:
        said = json.parse((folder / STATE_FILE).read_bytes())
        return _read(said)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(said: Any) -> Backups:
    if said["form"] != FORM:
        raise ValueError("of another form")
    kept = [Backup(**one) for one in said["kept"][:MOST]]
    return Backups(kept, said["tried"], said["fault"], said.get("drilled", True))


def write(folder: Path, state: Backups) -> None:
    """Replace the file, which only its owner reads; raises OSError."""
    path = folder / STATE_FILE
    fresh = path.with_suffix(".new")
    said = {
        "form": FORM,
        "kept": [attrs.asdict(one) for one in state.kept[:MOST]],
        "tried": state.tried,
        "fault": state.fault[:MAX_FAULT] if state.fault else None,
        "drilled": state.drilled,
    }
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dump(said))
    fresh.replace(path)
