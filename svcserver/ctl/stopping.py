"""SIGTERM, and a terminal that is closed, end a command in order, as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

SIGNALS = [one for one in signal.Signals if one.name in ("SIGTERM", "SIGHUP")]  # no HUP on Windows


class Ended(SystemExit):
    """The stack or systemd stops us in order."""


STOPPED = (KeyboardInterrupt, Ended)  # a command that knows what came of it fails with that


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the body as Ctrl-C does, so that nothing is left behind.

    One that is ignored stays so: nohup wants a command to outlive its terminal. Within another
    this changes nothing, so that what the outer body cleans up is not cut short either.
    """
    if current_thread() is not main_thread():
        yield
        return
    heard = [one for one in SIGNALS if signal.getsignal(one) not in (signal.SIG_IGN, _stop)]
    before = [(one, signal.signal(one, _stop)) for one in heard]
    try:
        yield
    finally:
        for one, earlier in before:
            signal.signal(one, earlier)


def _stop(number: int, frame: Any) -> None:
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)  # what we clean up is not to be cut short
    raise Ended(128 + number)
