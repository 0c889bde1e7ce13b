"""A game server's processes: their output goes to a bounded file, their end is reported once.

A game server lives as long as one of its processes (``family.py``) has its port, or has been
left by a launcher that ended well and may still be starting. Then the others are ended.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.process import reapAllProcesses
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.deploy.executables import cause, check_program
from svcserver.deploy.family import LOOK_AGE_S, Family, Process, own_children
from svcserver.deploy.watched import Polled, Watched

log = Logger()

MAX_OUTPUT = 1024 * 1024  # bytes of one server's output file; then a new one is begun
CHUNK = 64 * 1024  # bytes
MAX_LEFT = 1024 * 1024  # bytes read from the pipe of a dead server; it usually holds 64 KiB at most
UNSEEN = "code unknown"  # of one that an earlier run started
WELL = "code 0"  # how a game server ends when its players have left
BACKGROUND_S = 120.0  # within it after its launcher's end, a server in the background has its port
LONGEST_ERROR = 16  # bytes: the number that a child sends when exec fails
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


class Unseen(Exception):
    """The end of a process whose exit code we cannot have."""

    exitCode = "unknown"


class GameProcess(ProcessProtocol):
    """Watches one game server. ``ended`` is called once, with ``code N`` or ``signal NAME``.

    ``moved`` is called with the id of the process that goes on when the watched one has ended.
    """

    def __init__(self, output: Output | None, ended: Callable[[str], None]) -> None:
        self.is_zombie: Callable[[int], bool] = _is_zombie
        self._output = output
        self._ended = ended
        self._waiting: list[Deferred[None]] = []
        self.moved: Callable[[int], None] = lambda pid: None
        self.family: Family | None = None  # None where the system shows no processes
        self.over = False
        self.ending = False  # it is no game server any more; what is left of it is being ended
        self._stopping = False  # we have asked it to end
        self._well = False  # the launcher has ended without an error
        self._left_at = 0.0  # the age of its family at the launcher's end
        self._has_listened = False  # one of its processes has had the port
        self._finished = False
        self._pipes: list[Watched] = []  # what it prints
        self._closed = False  # its transport has nothing more to say
        self._next: Watched | Polled | None = None  # the process that goes on
        self._next_pid: int | None = None
        self._executed: Deferred[None] = succeed(None)
        self.how = ""  # how it ended, once that is known
        self.born: int | None = None  # its id, also when it ends while it is being started
        self.group: int | None = None  # of what it forks, where it leads one

    def exec_begins(self) -> None:
        """The child has yet to become the program."""
        self._executed = Deferred()

    def exec_ended(self, error: OSError | None = None) -> None:
        """The child has become the program, or could not."""
        if not self._executed.called:
            self._executed.callback(None) if error is None else self._executed.errback(error)

    def when_executed(self) -> Deferred[None]:
        """Fires once the child has become the program; fails with the OSError of its exec."""
        return self._executed

    def connectionMade(self) -> None:
        self.born = self.pid
        if self.born is not None:
            own_children.add(self.born)
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
        """The watched process is dead, even while a grandchild still holds its pipes."""
        if self.born is not None:
            own_children.discard(self.born)
        self._well = _how(reason.value) == WELL
        self._left_at = self.family.age() if self.family is not None else 0.0
        self._lost(_how(reason.value))

    def _lost(self, how: str) -> None:
        """The watched process has ended: watch another one, or end what is left."""
        self.how, self._next, self._next_pid = how, None, None
        while (heir := self._heir()) is not None:
            if self._watch(heir):
                return
        self._finish()

    def _heir(self) -> Process | None:
        """The process to watch next; None where none is left.

        Ends those that are left where none of them is the game server.
        """
        if self.family is None:
            return None
        left = self.family.members()
        if not left:
            return None
        if not self._stopping:
            if not self.ending:
                holder = self.family.holder()
                if holder is not None or (self._well and not self._has_listened):
                    self._has_listened = holder is not None
                    return holder or left[-1]
            self.family.signal(signal.SIGKILL)
        self.ending = True
        return left[0]

    def _watch(self, one: Process) -> bool:
        """Watch a process of the family; False where it has just ended."""
        if self.family is None:
            return False
        self._next = self.family.follow(one, self._next_ended)
        if self._next is None:
            return False
        self._next_pid = one.pid
        if not self.ending:
            self.moved(one.pid)
        return True

    def _next_ended(self) -> None:
        if self._next is not None:
            self._next.close()
        self._lost(UNSEEN)

    def look(self) -> None:
        """The watchdog's look: note whether it listens.

        What is left of a launcher and has no port after ``BACKGROUND_S`` is ended.
        """
        if self.over or self.ending or self.family is None:
            return
        holder, before = self.family.holder(), self._next
        self._has_listened = self._has_listened or holder is not None
        if before is None:
            return
        if holder is None and self.family.age() - self._left_at >= BACKGROUND_S:
            self.kill("KILL")
        elif holder is not None and holder.pid != self._next_pid and self._watch(holder):
            before.close()

    def _finish(self) -> None:
        """Close what is open: nothing of the game server is left."""
        self.over = self._finished = True
        if self.family is None and self.group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)  # what it forked goes with it
        for pipe in self._pipes:
            for _ in range(MAX_LEFT // CHUNK):  # a grandchild may write on
                if not self._read(pipe):
                    break
        self.close_pipes()
        transport: Any = self.transport
        transport.loseConnection()
        if self._closed:
            self._tell_end()

    def read_from(self, reactor: Any, handle: int) -> None:
        """Write to the log what comes from this pipe; it is closed with the game server."""
        os.set_blocking(handle, False)
        pipe = Watched(reactor, handle, lambda: self._read(pipe))
        self._pipes.append(pipe)
        pipe.begin()

    def _read(self, pipe: Watched) -> bool:
        """Read a piece; return False where the pipe is empty or at its end."""
        try:
            data = os.read(pipe.descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            pipe.close()
            return False
        self.outReceived(data)
        return True

    def close_pipes(self) -> None:
        """Read no more from the game server."""
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []

    def processEnded(self, reason: Failure) -> None:
        """The watched process is dead, and its pipes are closed: another one may go on."""
        self._closed = True
        if self._finished:
            self._tell_end()

    def _tell_end(self) -> None:
        if self._output is not None:
            self._output.close()
        self._ended(self.how)
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)

    @property
    def alive(self) -> bool:
        """True while the game server runs; a zombie does not, nor what is left of one."""
        if self.over or self.ending or self.pid is None:
            return False
        return not self.is_zombie(self.pid)

    def has(self, pid: int) -> bool:
        """Return whether the process is one of the game server's."""
        if pid == self.pid:
            return True
        return self.family is not None and any(
            member.pid == pid for member in self.family.members(LOOK_AGE_S)
        )

    def reap(self) -> None:
        """Learn how a dead child ended, where the reactor has not asked the system yet."""
        if not self.over and self._next is None:
            reapAllProcesses()

    @property
    def pid(self) -> int | None:
        """The id of the watched process while there is one."""
        if self._next_pid is not None:
            return self._next_pid
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
        """``TERM`` or ``KILL`` to the process and to all that it has started."""
        if self.over or self.pid is None:
            return
        self._stopping = True
        number = getattr(signal, f"SIG{how}")
        try:
            if self.family is not None and self.family.signal(number):
                return
            if not self._kill_group(how):
                transport: Any = self.transport
                transport.signalProcess(how)
        except ProcessExitedAlready:
            self.over = self._next is None
        except PermissionError as why:  # a launcher made it somebody else's
            log.error("process {pid} cannot be ended: {why}", pid=self.pid, why=why.strerror)

    def _kill_group(self, how: str) -> bool:
        """Return whether there was a group to signal: ``child_setup`` may not have made it yet."""
        if self.group is None or self._next is not None:  # a later group may have its id by now
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
        process.exec_begins()
        with ExitStack() as its_ends, ExitStack() as on_error:
            on_error.callback(process.close_pipes)
            child_fds = {}  # standard input stays closed
            for number in (1, 2, 3):
                reading, child_fds[number] = os.pipe()
                its_ends.callback(os.close, child_fds[number])
                if number < 3:
                    process.read_from(self.reactor, reading)
            on_error.callback(os.close, reading)
            transport = self.reactor.spawnProcess(
                process,
                self.python,
                [self.python, "-I", "-S", CHILD_SETUP, *words],
                env=environ,
                childFDs=child_fds,
            )
            on_error.pop_all()
        process.group = transport.pid
        if process.family is not None:
            process.family.leader = transport.pid
        self._await_exec(process, words[0], reading)
        return int(transport.pid or process.born or 0)

    def _await_exec(self, process: GameProcess, program: str, reading: int) -> None:
        """Tell the process what the pipe says: it is closed by exec, or has the error's number."""

        def hear() -> None:
            said = os.read(reading, LONGEST_ERROR)
            watch.close()
            number = int(said) if said.isdigit() else 0
            error = OSError(number, os.strerror(number))
            process.exec_ended(OSError(number, cause(program, error)) if number else None)

        watch = Watched(self.reactor, reading, hear, process.exec_ended)
        watch.begin()


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
