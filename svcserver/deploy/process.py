"""A game-server process: its output goes to a bounded file, its end is reported once."""

from __future__ import annotations

import os
import shutil
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

MAX_OUTPUT = 1024 * 1024  # bytes of one server's output file; then a new one is begun
CHUNK = 64 * 1024  # bytes
MAX_LEFT = 1024 * 1024  # bytes read from the pipe of a dead server; it usually holds 64 KiB at most
UNSEEN = "code unknown"  # of one that an earlier run started
WELL = "code 0"  # how a game server ends when its players have left
CHILD_SETUP = str(Path(__file__).with_name("child_setup.py"))


class Output:
    """A file of what a game server prints, at most ``MAX_OUTPUT`` bytes.

    The file before it is kept as ``.old``, so that the last output of a city that crashed
    is still there after its restart.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._file: BinaryIO | None = None
        self._told = False

    def begin(self) -> None:
        """Open a fresh file; without one the output is lost, and the server runs on."""
        self.close()
        self._size = 0
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._path.exists():
                self._path.chmod(0o600)  # an older version left it readable
                os.replace(self._path, self._path.with_suffix(".old"))
            # game servers print addresses and names of players, and their own command line
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self._file = os.fdopen(handle, "wb", buffering=0)
        except OSError as why:
            self._warn(why)

    def go_on(self) -> None:
        """Write on in the file of an earlier run."""
        self.close()
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._file = os.fdopen(handle, "ab", buffering=0)
            self._size = os.fstat(handle).st_size
        except OSError as why:
            self._warn(why)

    def write(self, data: bytes) -> None:
        """Keep what a game server printed.

        Never fails: an error here would close the server's pipe, and its next line
        would end it. A full disk must not cost a hunt.
        """
        if self._file is not None and self._size + len(data) > MAX_OUTPUT:
            self.begin()
        if self._file is None:
            return
        try:
            self._size += self._file.write(data[-MAX_OUTPUT:]) or 0
        except OSError as why:
            self._warn(why)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _warn(self, why: OSError) -> None:
        if not self._told:
            self._told = True
            log.warn("output is lost at {path}: {why}", path=str(self._path), why=why.strerror)


class GameProcess(ProcessProtocol):
    """Watches one child. ``ended`` is called once, with ``code N`` or ``signal NAME``."""

    def __init__(self, output: Output | None, ended: Callable[[str], None]) -> None:
        self.is_zombie: Callable[[int], bool] = _is_zombie
        self._output = output
        self._ended = ended
        self._waiting: list[Deferred[None]] = []
        self.over = False
        self.how = ""  # how it ended, once that is known
        self.born: int | None = None  # its id, also when it ends while it is being started
        self.group: int | None = None  # of what it forks, where it leads one

    def connectionMade(self) -> None:
        self.born = self.pid
        if self._output is not None:
            self._output.begin()

    def adopted(self, transport: Any, group: int) -> None:
        """Watch a process that runs already, through this transport."""
        self.transport, self.group = transport, group
        if self._output is not None:
            self._output.go_on()

    def outReceived(self, data: bytes) -> None:
        """Write what the game server printed to its log, if one is kept."""
        if self._output is not None:
            self._output.write(data)

    errReceived = outReceived

    def processExited(self, reason: Failure) -> None:
        """The process is dead, even while a grandchild still holds its pipes."""
        self.over, self.how = True, _how(reason.value)
        if self.group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)  # what it forked goes with it
        transport: Any = self.transport
        for pipe in list(getattr(transport, "pipes", {}).values()):
            self._drain(pipe.fileno())
        transport.loseConnection()

    def _drain(self, pipe: int) -> None:
        """Read what a pipe still holds: the last output, which closing would discard."""
        for _ in range(MAX_LEFT // CHUNK):  # a grandchild may write on
            try:
                data = os.read(pipe, CHUNK)
            except OSError:  # empty
                return
            if not data:
                return
            self.outReceived(data)

    def processEnded(self, reason: Failure) -> None:
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
        return not self.over and self.pid is not None and not self.is_zombie(self.pid)

    def reap(self) -> None:
        """Learn how a dead child ended, where the reactor has not asked the system yet."""
        ask: Callable[[], None] | None = getattr(self.transport, "reapProcess", None)
        if not self.over and ask is not None:
            ask()

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

    def kill(self, how: str) -> None:
        """``TERM`` or ``KILL`` to the process and, where there are groups, to what it forked."""
        if self.over or self.pid is None:
            return
        try:
            if not self._kill_group(how):
                transport: Any = self.transport
                transport.signalProcess(how)
        except ProcessExitedAlready:
            self.over = True
        except PermissionError as why:  # a launcher made it somebody else's
            log.error("process {pid} cannot be ended: {why}", pid=self.pid, why=why.strerror)

    def _kill_group(self, how: str) -> bool:
        """Whether there was a group to signal: ``child_setup`` may not have made it yet."""
        if self.group is None:
            return False
        try:
            os.killpg(self.group, getattr(signal, f"SIG{how}"))
        except ProcessLookupError:
            return False
        return True


@define
class Spawner:
    """Starts processes through the reactor.

    ``child_setup`` where the system knows process groups; Windows does not, and takes no
    choice of descriptors either.
    """

    reactor: Any
    python: str = sys.executable
    environ: dict[str, str] = field(factory=lambda: dict(os.environ), repr=False)
    own_group: bool = os.name == "posix"

    def spawn(self, process: GameProcess, command: list[str], extra: dict[str, str]) -> int:
        """Start ``command`` (a list, never a shell line); its pid. Raises OSError."""
        words = [check_program(command[0], self.environ.get("PATH")), *command[1:]]
        environ = {**self.environ, **extra}
        if not self.own_group:
            transport = self.reactor.spawnProcess(process, words[0], words, env=environ)
            transport.closeStdin()
            return int(transport.pid or process.born or 0)
        transport = self.reactor.spawnProcess(
            process,
            self.python,
            [self.python, "-I", "-S", CHILD_SETUP, *words],
            env=environ,
            childFDs={1: "r", 2: "r"},  # standard input stays closed
        )
        process.group = transport.pid
        return int(transport.pid or process.born or 0)


def check_program(path: str, search: str | None = None) -> str:
    """The program's absolute path; a bare word is found in ``search``, a PATH, as well.

    Raises OSError when it cannot be run.
    """
    where = Path(path).resolve()
    if not where.exists():
        found = shutil.which(path, path=search) if path == os.path.basename(path) else None
        if found is None:
            raise FileNotFoundError(f"{path} does not exist")
        return os.path.abspath(found)
    if not where.is_file():
        raise IsADirectoryError(f"{path} is not a file")
    if not os.access(where, os.X_OK):
        raise PermissionError(f"{path} is not executable")
    return str(where)


def _is_zombie(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return sys.platform == "linux"  # gone; elsewhere there is nothing to read
    except OSError:  # as when no descriptor is left: processExited will tell its end
        return False
    return state in ("Z", "X")


def _how(why: Any) -> str:
    killed_by = getattr(why, "signal", None)
    if killed_by is not None:
        try:
            return f"signal {signal.Signals(killed_by).name}"
        except ValueError:
            return f"signal {killed_by}"
    return f"code {getattr(why, 'exitCode', 0)}"
