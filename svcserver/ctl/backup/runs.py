"""A record of the backup in progress, so that a killed one is detected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

from attrs import evolve

from svcserver.ctl.output import Failed, fail
from svcserver.ctl.stopping import EndedBySignal, stoppable
from svcserver.kernel import backups
from svcserver.kernel.backups import Backups

TRIES, PAUSE_S = 20, 0.05  # who only looks holds the lock for an instant


class BackupRunning(Exception):
    """Another process makes a backup of this host."""


def known(data: Path) -> Backups:
    """Return the state of the host's backups."""
    return backups.read(data) or Backups()


def put(data: Path, state: Backups) -> None:
    """Write the state; fails with one line."""
    try:
        backups.write(data, state)
    except OSError as why:
        fail(f"{data / backups.STATE_FILE} cannot be written: {why.strerror}")


@contextmanager
def run(data: Path, moment: float) -> Iterator[None]:
    """Record that a backup is in progress; raises BackupRunning. Only an orderly end clears it."""
    with ExitStack() as held:
        _take(data, held)
        held.enter_context(stoppable())
        put(data, evolve(known(data), begun=moment))
        try:
            yield
        except (Failed, EndedBySignal, KeyboardInterrupt):
            _over(data)
            raise
        _over(data)


def _over(data: Path) -> None:
    put(data, evolve(known(data), begun=None))


def _take(data: Path, held: ExitStack) -> None:
    for _ in range(TRIES):
        with ExitStack() as tried:
            try:
                free = tried.enter_context(backups.running(data))
            except OSError as why:
                fail(f"{data / backups.RUN_FILE} cannot be written: {why.strerror}")
            if free:
                held.enter_context(tried.pop_all())
                return
        Event().wait(PAUSE_S)
    raise BackupRunning
