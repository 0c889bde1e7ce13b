"""SIGTERM ends a command in order, as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


class Ended(SystemExit):
    """The stack or systemd stops us in order."""


STOPPED = (KeyboardInterrupt, Ended)  # a command that knows what came of it fails with that


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM ends the body as Ctrl-C does, so that nothing is left behind."""
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
