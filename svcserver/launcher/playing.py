"""The game's processes, which are started, watched and ended in the same way on every system."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.kernel.every import Every
from svcserver.launcher import windows

log = Logger()

LOOK_S = 0.5  # between checks of the process
PATIENCE_S = 10.0  # how long the game may take to end before it is killed
GIVE_UP_S = 15.0  # stop waiting for a process that cannot be killed; must be less than WAIT_S


class NoProgram(Exception):
    """The error for a program that cannot be started; the text begins with the program's name."""


class RunningProgram(Protocol):
    """A program with all its child processes. Wine and Proton start the game as a child."""

    def poll(self) -> int | None:
        """Return the program's exit status, or None while it runs."""

    def leaves(self) -> bool:
        """Return whether a child process still runs although the program has ended."""

    def terminate(self) -> None:
        """Ask the program and its children to end, as SIGTERM does."""

    def kill(self) -> None:
        """Kill the program and its children."""


Spawn = Callable[[Sequence[str], str | None, Mapping[str, str]], RunningProgram]


def spawn(
    arguments: Sequence[str], folder: str | None, environ: Mapping[str, str]
) -> RunningProgram:
    """Start a process; discard its output, which may be long and contain secrets.

    The process leads its own process group or Windows job, which includes its children.
    """
    devnull = subprocess.DEVNULL
    started = subprocess.Popen(
        list(arguments),
        cwd=folder,
        env=dict(environ),
        stdin=devnull,
        stdout=devnull,
        stderr=devnull,
        start_new_session=True,  # no effect on Windows, which has jobs instead of groups
        creationflags=windows.SUSPENDED if sys.platform == "win32" else 0,
    )
    if sys.platform != "win32":
        return ProcessGroup(started)
    try:
        job = windows.WindowsJob()
        if not job.start(started.pid):
            log.warn(
                "the game runs without a Windows job object, so the launcher watches only the "
                "game's first process"
            )
    except OSError:
        started.kill()
        raise
    return ProcessJob(started, job)


_killpg: Callable[[int, int], None] = getattr(os, "killpg", os.kill)  # Windows has no killpg


@define
class ProcessGroup:
    """A POSIX process group, whose number the system does not reuse while a member runs."""

    leader: subprocess.Popen[bytes]
    killpg: Callable[[int, int], None] = _killpg

    def poll(self) -> int | None:
        return self.leader.poll()

    def leaves(self) -> bool:
        return self._signalled(0)

    def terminate(self) -> None:
        self._signalled(signal.SIGTERM)

    def kill(self) -> None:
        self._signalled(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _signalled(self, number: int) -> bool:
        try:
            self.killpg(self.leader.pid, number)
        except (
            ProcessLookupError,
            PermissionError,
        ):  # the group is empty or, on some systems, has only zombies
            return False
        return True


@define
class ProcessJob:
    """A Windows process and its descendants; counts as running until the last of them ends.

    The first process is sometimes just a starter, which ends before the game does.
    """

    first: subprocess.Popen[bytes]
    job: windows.WindowsJob
    close_windows: Callable[[Collection[int]], None] = windows.close_windows

    def poll(self) -> int | None:
        status = self.first.poll()
        return None if self.job.processes() else status

    def leaves(self) -> bool:
        return False  # ``poll`` counts the child processes as well

    def terminate(self) -> None:
        self.close_windows({self.first.pid, *self.job.processes()})

    def kill(self) -> None:
        self.job.end()
        self.first.kill()


@define(eq=False, slots=False)
class Game:
    """The game that the launcher started, watched until it ends."""

    clock: IReactorTime
    ended: Callable[[int], None]  # called with the exit status, unless ``stop`` ended it
    spawn: Spawn = spawn
    _process: RunningProgram | None = field(default=None, init=False)
    _stopped_at: float | None = field(default=None, init=False)
    _waiting: list[Deferred[None]] = field(factory=list, init=False)  # for the end of the game
    _checks: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._checks = Every(self.clock, LOOK_S, self._check, "the check of the game")

    @property
    def running(self) -> bool:
        """True while the game has a process."""
        return self._process is not None

    def start(self, arguments: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        """Start the game, or raise NoProgram. The arguments include the key, so never log them."""
        program = _find_program(arguments[0], folder, environ)
        there = folder if os.path.isdir(folder) else None
        if self._process is not None:
            self._process.kill()  # the previous game, which is slow to end
            self._report_end()
        try:
            self._process = self.spawn([program, *arguments[1:]], there, environ)
        except OSError as error:
            raise NoProgram(f"{arguments[0]} ({error.strerror})") from error
        self._stopped_at = None
        if not self._checks.running:
            self._checks.startService()
        log.info("the game has started")

    def stop(self) -> Deferred[None]:
        """Ask the game to end, and kill it if it still runs after ``PATIENCE_S``.

        The result fires when the game has ended, at the latest after ``GIVE_UP_S``.
        """
        if self._process is None:
            return succeed(None)
        if self._stopped_at is None:
            self._stopped_at = self.clock.seconds()
            self._process.terminate()
        self._waiting.append(Deferred())
        return self._waiting[-1]

    def _report_end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)

    def _check(self) -> None:
        process, stopped_at = self._process, self._stopped_at
        status = process.poll() if process is not None else 0
        if process is not None and (
            status is None or (stopped_at is not None and process.leaves())
        ):
            waited_s = 0.0 if stopped_at is None else self.clock.seconds() - stopped_at
            if waited_s >= PATIENCE_S:
                process.kill()
            if waited_s < (GIVE_UP_S if status is None else PATIENCE_S):
                return
        self._process = None
        self._checks.stopService()
        if status is None:
            log.warn(
                "the launcher could not kill the game, and now treats it as ended. "
                "End the game's processes yourself"
            )
        else:
            log.info("the game has ended with {status}", status=status)
        self._report_end()
        if self._stopped_at is None:
            self.ended(status or 0)


def _find_program(name: str, folder: str, environ: Mapping[str, str]) -> str:
    """Return the program's full path, from PATH or from the game's folder."""
    program = which(name, path=environ.get("PATH")) or which(str(Path(folder, name)))
    if program is None:
        raise NoProgram(name)
    return str(Path(program).absolute())
