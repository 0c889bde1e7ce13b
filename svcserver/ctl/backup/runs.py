"""A backup that is being made is known as such, so that one which dies hard is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

from attrs import evolve

from svcserver.ctl.output import Failed, fail
from svcserver.ctl.stopping import Ended, stoppable
from svcserver.kernel import backups
from svcserver.kernel.backups import Backups

TRIES, PAUSE_S = 20, 0.05  # who only looks holds the lock for an instant


class Busy(Exception):
    """Another process makes a backup of this host."""


def known(data: Path) -> Backups:
    """What is known of the host's backups."""
    return backups.read(data) or Backups()


def put(data: Path, state: Backups) -> None:
    """Write it down; fails with one line."""
    try:
        backups.write(data, state)
    except OSError as why:
        fail(f"{data / backups.STATE_FILE} cannot be written: {why.strerror}")


@contextmanager
def run(data: Path, moment: float) -> Iterator[None]:
    """While it lasts, a backup is being made; raises Busy. Only an end in order is an end."""
    with ExitStack() as held:
        _take(data, held)
        held.enter_context(stoppable())
        put(data, evolve(known(data), begun=moment))
        try:
            yield
        except (Failed, Ended, KeyboardInterrupt):
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
    raise Busy
