"""Ends a command cleanly on SIGTERM and when the terminal closes, as on Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

SIGNALS = [
    number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")
]  # Windows has no SIGHUP


class EndedBySignal(SystemExit):
    """The exception that ends a command after a signal, for example from svc-stack or systemd."""


STOPPED = (
    KeyboardInterrupt,
    EndedBySignal,
)  # for commands that report their outcome when stopped


@contextmanager
def stoppable() -> Iterator[None]:
    """End the ``with`` block on SIGTERM and SIGHUP as on Ctrl-C, so that its cleanup runs.

    A signal that is already ignored, as under nohup, stays ignored. A nested call changes nothing.
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
        signal.signal(each, signal.SIG_IGN)  # the cleanup must not be interrupted
    raise EndedBySignal(128 + number)
