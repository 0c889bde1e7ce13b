"""A backup that is being made is known as such, so that one which dies hard is noticed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

from attrs import evolve

from svcserver.ctl.output import Failed, fail
from svcserver.kernel import backups
from svcserver.kernel.backups import Backups

TRIES, PAUSE_S = 20, 0.05  # who only looks holds the lock for an instant


class Ended(SystemExit):
    """The stack or systemd stops us in order."""


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
        held.enter_context(_stoppable())
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


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, so that nothing is left behind."""
    if current_thread() is not main_thread():
        yield
        return
    before: Callable[[int, Any], Any] | int | None = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what we clean up is not to be cut short
    raise Ended(128 + number)
