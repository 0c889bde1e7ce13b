"""SIGTERM, and a closed terminal, end a command in order, as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

SIGNALS = [
    number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")
]  # no HUP on Windows


class EndedBySignal(SystemExit):
    """The stack or systemd stops the command in order."""


STOPPED = (KeyboardInterrupt, EndedBySignal)  # a command that knows what came of it fails with that


@contextmanager
def stoppable() -> Iterator[None]:
    """End the body on SIGTERM and SIGHUP as Ctrl-C does, so that nothing is left behind.

    One that is ignored stays so: nohup wants a command to outlive its terminal. Within another
    this changes nothing, so that what the outer body cleans up is not cut short either.
    """
    if current_thread() is not main_thread():
        yield
        return
    handled = [
        number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, _stop)
    ]
    before = [(number, signal.signal(number, _stop)) for number in handled]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, earlier)


def _stop(number: int, frame: Any) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # what we clean up is not to be cut short
    raise EndedBySignal(128 + number)
