"""The file with the state of a host's backups; ``svcctl backup`` writes the file.

The dashboard and the alerts read the file. The process that makes a backup holds a lock as long as
it runs, so a killed run is detected.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
from attrs import evolve, frozen

from svcserver.kernel import json
from svcserver.kernel.disk import replace_json

STATE_FILE = "backup-state.json"
RUN_FILE = "backup-running"  # locked by the process that makes a backup
REQUEST_FILE = "backup-request.json"  # the owner's request to make a backup now
REQUEST_S = 60.0  # older requests are ignored
TAKEN_S = 15.0  # svc-stack checks for requests every two seconds
FORM = 1  # version of the file; other versions are ignored
MOST = 400  # maximum backups in the file
STALE_S = 50 * 3600.0  # two nights without a backup, or without a successful test, are a fault
LONGEST_S = 4 * 3600.0  # a nightly backup that takes longer is killed
MAX_FAULT = 500  # characters


NEVER = "no backup has ever been made of this host"


class BackupStep(StrEnum):
    """The steps of a backup run, in order; the test restore runs only with BACKUP_DRILL."""

    MAKE = "make"
    TEST = "test"
    CHECK = "check"  # of all stored backups


@frozen
class Backup:
    """One backup file.

    ``proven`` is the time of the file's successful test restore. ``fault`` says why a test restore
    failed, or why the file cannot be used any more.
    """

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
    """All stored backups, newest first, and the result of the last run."""

    kept: Sequence[Backup] = ()
    tried: float | None = None
    fault: str | None = None  # why the last run made no backup
    drilled: bool = True  # each night's backup is tested by a restore (BACKUP_DRILL)
    begun: float | None = None  # when the unfinished run began
    step: str = ""  # of that run: a value of ``BackupStep``
    cut_off: bool = False  # that run was killed; set by ``read``, not written
    since: float | None = None  # since when the host should have backups; None: it needs none

    @property
    def newest(self) -> Backup | None:
        return self.kept[0] if self.kept else None

    @property
    def proven(self) -> float | None:
        """The time of the last successful test restore of any backup, in epoch seconds."""
        return max(
            (backup.proven for backup in self.kept if backup.proven is not None), default=None
        )

    @property
    def running_since(self) -> float | None:
        """The start of the run in progress, in epoch seconds, or None if no run is in progress."""
        return None if self.cut_off else self.begun

    def wrong(self, now: float) -> str | None:
        """Return a text for the owner about a fault of the backups; None if there is no fault."""
        if self.fault is not None:
            return self.fault
        if self.begun is not None and (self.cut_off or now - self.begun > 2 * LONGEST_S):
            at = datetime.fromtimestamp(self.begun).strftime("%Y-%m-%d %H:%M")
            return f"the backup of {at} did not finish: it was killed, or the machine stopped"
        damaged = next((backup for backup in self.kept if backup.fault is not None), None)
        if damaged is not None:
            return f"{Path(damaged.file).name}: {damaged.fault}"
        if self.newest is None:
            return NEVER if self.since is not None and now - self.since > STALE_S else None
        if not self.drilled and now - self.newest.made > STALE_S:
            return "no backup has been made for two days"
        if self.drilled and now - (self.proven or self.kept[-1].made) > STALE_S:
            return "no backup has been tested for two days"
        return None


def read(folder: Path) -> Backups | None:
    """Return the backup state of the host in ``folder``, or None if the folder has none."""
    try:
        content = json.parse((folder / STATE_FILE).read_bytes())
        state = _read(content)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return evolve(state, cut_off=state.begun is not None and not _runs(folder))


def _read(content: Any) -> Backups:
    if content["form"] != FORM:
        raise ValueError("the file has an unknown format")
    backups = [Backup(**backup) for backup in content["kept"][:MOST]]
    return Backups(
        backups,
        content["tried"],
        content["fault"],
        content.get("drilled", True),
        content.get("begun"),
        str(content.get("step", "")),
        since=content.get("since"),
    )


def write(folder: Path, state: Backups) -> None:
    """Write the state to a file that only its owner can read; raises OSError."""
    path = folder / STATE_FILE
    content = {
        "form": FORM,
        "kept": [attrs.asdict(backup) for backup in state.kept[:MOST]],
        "tried": state.tried,
        "fault": state.fault[:MAX_FAULT] if state.fault else None,
        "drilled": state.drilled,
        "begun": state.begun,
        "step": state.step,
        "since": state.since,
    }
    replace_json(path, path.with_suffix(".new"), content)


def expect(folder: Path, now: float, *, wanted: bool) -> None:
    """Record that the host should have backups from ``now`` on.

    If an earlier time is recorded already, it is kept. If ``wanted`` is False, record that the host
    needs no backups. Raises OSError.
    """
    state = read(folder) or Backups()
    since = (state.since or now) if wanted else None
    if since != state.since or not (folder / STATE_FILE).exists():
        write(folder, evolve(state, since=since))


# -- the owner's request ------------------------------------------------------------


def request(folder: Path, now: float) -> None:
    """Request a backup; raises OSError."""
    path = folder / REQUEST_FILE
    replace_json(path, path.with_suffix(".new"), {"at": now})


def requested_at(folder: Path) -> float | None:
    """Return when a backup was requested, or None if there is no request."""
    try:
        return (folder / REQUEST_FILE).stat().st_mtime
    except OSError:
        return None


def is_requested(folder: Path, now: float) -> bool:
    """Return whether there is a recent request for a backup."""
    at = requested_at(folder)
    return at is not None and abs(now - at) <= REQUEST_S


def take_request(folder: Path, now: float) -> bool:
    """Delete the request for a backup; return whether it was recent. Raises OSError."""
    is_fresh = is_requested(folder, now)
    (folder / REQUEST_FILE).unlink(missing_ok=True)  # a request that stays would run repeatedly
    return is_fresh


# -- the lock of the run -----------------------------------------------------------


@contextmanager
def running(folder: Path) -> Iterator[bool]:
    """Try to hold the lock of backup runs during the block; yield whether the lock was free.

    Raises OSError.
    """
    handle = os.open(folder / RUN_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield _lock(handle, alone=True)
    finally:
        os.close(handle)


def _runs(folder: Path) -> bool:
    """Return whether a process is making a backup; True if this cannot be determined."""
    try:
        handle = os.open(folder / RUN_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not _lock(handle, alone=False)
    finally:
        os.close(handle)


def _lock(handle: int, *, alone: bool) -> bool:
    """Take the lock of backup runs if it is free; return whether it was free.

    A process that makes a backup takes the lock ``alone``. Processes that only check the lock take
    a shared lock, so that several can check at the same time.
    """
    try:
        import fcntl
    except ImportError:  # Windows: a run counts as killed when it is old
        return alone
    how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
