"""One game-server process: its output into a bounded file, its end told once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

log = Logger()

MAX_OUTPUT = 1024 * 1024  # bytes of one server's output file; then it starts anew once
LEASH = str(Path(__file__).with_name("leash.py"))


class Output:
    """A file that holds at most the last ``MAX_OUTPUT`` bytes, and those before in ``.old``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._file: BinaryIO | None = self._open()

    def _open(self) -> BinaryIO | None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return self._path.open("wb", buffering=0)
        except OSError as why:
            log.warn("no output file {path}: {why}", path=str(self._path), why=why.strerror)
            return None

    def write(self, data: bytes) -> None:
        """Keep what a game server printed."""
        if self._file is None:
            return
        if self._size + len(data) > MAX_OUTPUT:
            self.close()
            os.replace(self._path, self._path.with_suffix(".old"))
            self._size, self._file = 0, self._open()
        if self._file is not None:
            self._size += self._file.write(data[-MAX_OUTPUT:]) or 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class GameProcess(ProcessProtocol):
    """Watches one child. ``ended`` is called once, with how it ended in words."""

    def __init__(self, output: Output | None, ended: Callable[[str], None]) -> None:
        self._output = output
        self._ended = ended
        self._waiting: list[Deferred[None]] = []
        self.over = False
        self.group: int | None = None  # of what it forks, where it leads one

    def outReceived(self, data: bytes) -> None:
        """Standard output."""
        if self._output is not None:
            self._output.write(data)

    errReceived = outReceived

    def processExited(self, reason: Failure) -> None:
        """It is dead from here on, even while a grandchild holds its pipes."""
        self.over = True
        transport: Any = self.transport
        transport.loseConnection()
        if self.group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)  # what it forked goes with it

    def processEnded(self, reason: Failure) -> None:
        """The pipes are closed, too."""
        self.over = True
        if self._output is not None:
            self._output.close()
        self._ended(_how(reason.value))
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.callback(None)

    @property
    def alive(self) -> bool:
        """Whether the process runs; a zombie does not."""
        return not self.over and self.pid is not None and not _is_zombie(self.pid)

    @property
    def pid(self) -> int | None:
        """The process id while there is one."""
        return getattr(self.transport, "pid", None)

    def when_over(self) -> Deferred[None]:
        """Fires when the process has ended."""
        done: Deferred[None] = Deferred()
        if self.over:
            done.callback(None)
        else:
            self._waiting.append(done)
        return done

    def kill(self, how: int) -> None:
        """Signal the whole process group."""
        if self.over or self.pid is None:
            return
        try:
            os.killpg(self.pid, how)
        except ProcessLookupError:
            # not yet the leader of its own group: the leash is still on its way
            transport: Any = self.transport
            try:
                transport.signalProcess(how)
            except ProcessExitedAlready:
                self.over = True


@define
class Spawner:
    """Starts processes through the reactor."""

    reactor: Any
    python: str = sys.executable
    environ: dict[str, str] = field(factory=lambda: dict(os.environ), repr=False)

    def spawn(self, process: GameProcess, command: list[str], extra: dict[str, str]) -> int:
        """Start ``command`` (a list, never a shell line); its pid. Raises OSError."""
        program = check_program(command[0])
        leashed = [self.python, "-I", "-S", LEASH, program, *command[1:]]
        transport = self.reactor.spawnProcess(
            process,
            self.python,
            leashed,
            env={**self.environ, **extra},
            childFDs={1: "r", 2: "r"},  # standard input stays closed
        )
        pid = int(transport.pid)
        process.group = pid if hasattr(os, "killpg") else None
        return pid


def check_program(path: str) -> str:
    """The program's absolute path; raises OSError when it cannot be run."""
    where = Path(path).resolve()
    if not where.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if not where.is_file():
        raise IsADirectoryError(f"{path} is not a file")
    if not os.access(where, os.X_OK):
        raise PermissionError(f"{path} is not executable")
    return str(where)


def _is_zombie(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return sys.platform == "linux"  # gone; elsewhere there is nothing to read
    return state in ("Z", "X")


def _how(why: Any) -> str:
    killed_by = getattr(why, "signal", None)
    if killed_by is not None:
        try:
            return f"signal {signal.Signals(killed_by).name}"
        except ValueError:
            return f"signal {killed_by}"
    return f"code {getattr(why, 'exitCode', 0)}"
