"""Prints the steps of a session, each with the time since the start."""

from collections.abc import Callable
from typing import Any

from attrs import define, field

PROGRESS_S = 10.0  # the longest time without a line


class PlayFailed(Exception):
    """The error when a component fails.

    ``link`` is the component's name, and ``fault`` says what was observed.
    """

    def __init__(self, link: str, fault: str) -> None:
        super().__init__(f"{link}: {fault}")
        self.link, self.fault = link, fault


# the result after Ctrl-C or SIGTERM, when no component has failed
INTERRUPTED = PlayFailed("session", "stopped before the session ended")


@define
class Story:
    """A log of the session's steps, which passes each line to ``write`` and keeps it."""

    write: Callable[[str], None]
    wall_clock: Callable[[], float]
    lines: list[str] = field(factory=list)
    _began: float = field(init=False)
    _step: tuple[str, int] = field(default=("", 0), init=False)  # name and number of parts
    _done: int = field(default=0, init=False)
    _timer: Any = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self.wall_clock()

    def add(self, line: str) -> None:
        self.lines.append(line)
        self._write(line)
        self.stop()

    def begin(self, step: str, parts: int, clock: Any) -> None:
        """Show a step's progress every ``PROGRESS_S`` seconds, until the step ends.

        If ``parts`` is 0, only the step's name is shown.
        """
        self.stop()
        self._step, self._done = (step, parts), 0
        self._timer = clock.callLater(PROGRESS_S, self._progress, clock)

    def done(self) -> None:
        """Count one part of the step as done."""
        self._done += 1

    def stop(self) -> None:
        """Show no more progress."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _progress(self, clock: Any) -> None:
        step, parts = self._step
        self._write(f"... {step}" + (f": {self._done} of {parts}" if parts else ""))
        self._timer = clock.callLater(PROGRESS_S, self._progress, clock)

    def _write(self, line: str) -> None:
        self.write(f"{self.wall_clock() - self._began:6.1f} s  {line}")
