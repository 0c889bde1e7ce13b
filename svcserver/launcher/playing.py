"""The game's process: started, watched, ended. The same way on every system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Protocol

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.kernel.every import Every

log = Logger()

LOOK_S = 0.5  # how often the process is looked at
PATIENCE_S = 10.0  # that a game has to end when asked


class NoProgram(Exception):
    """The program is not there; ``str()`` is its name."""


class Process(Protocol):
    """What is used of ``subprocess.Popen``."""

    def poll(self) -> int | None:
        """The exit status, None while it runs."""

    def terminate(self) -> None:
        """Ask the process to end, as SIGTERM does."""

    def kill(self) -> None:
        """End the process at once."""


Spawn = Callable[[Sequence[str], str | None, Mapping[str, str]], Process]


def spawn(arguments: Sequence[str], folder: str | None, environ: Mapping[str, str]) -> Process:
    """Start a process without input and output: a game's output may be long, and tell secrets."""
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        list(arguments),
        cwd=folder,
        env=dict(environ),
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
    )


@define(eq=False, slots=False)
class Game:
    """The game that was started, watched until it ends."""

    clock: IReactorTime
    ended: Callable[[int], None]  # called with the exit status, unless we ended it
    spawn: Spawn = spawn
    _process: Process | None = field(default=None, init=False)
    _asked_at: float | None = field(default=None, init=False)
    _looks: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._looks = Every(self.clock, LOOK_S, self._look, "a look at the game")

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None

    def start(self, arguments: Sequence[str], folder: str, environ: Mapping[str, str]) -> None:
        """Start it; raises NoProgram. The arguments hold the key and are never logged."""
        program = _found(arguments[0], folder, environ)
        there = folder if os.path.isdir(folder) else None
        if self._process is not None:
            self._process.kill()  # the last one, which was asked to end and is slow about it
        try:
            self._process = self.spawn([program, *arguments[1:]], there, environ)
        except OSError as why:
            raise NoProgram(f"{arguments[0]} ({why.strerror})") from why
        self._asked_at = None
        if not self._looks.running:
            self._looks.startService()
        log.info("the game has started")

    def stop(self) -> None:
        """Ask it to end; after some seconds it is ended."""
        if self._process is not None and self._asked_at is None:
            self._asked_at = self.clock.seconds()
            self._process.terminate()

    def _look(self) -> None:
        process = self._process
        status = process.poll() if process is not None else 0
        if status is None and process is not None:
            if self._asked_at is not None and self.clock.seconds() - self._asked_at >= PATIENCE_S:
                process.kill()
            return
        self._process = None
        self._looks.stopService()
        log.info("the game has ended with {status}", status=status)
        if self._asked_at is None:
            self.ended(status or 0)


def _found(name: str, folder: str, environ: Mapping[str, str]) -> str:
    """The program's full path, looked for as a shell would and in the game's folder."""
    found = which(name, path=environ.get("PATH")) or which(str(Path(folder, name)))
    if found is None:
        raise NoProgram(name)
    return str(Path(found).absolute())
