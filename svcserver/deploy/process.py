"""A game server's processes, whose output goes to a size-limited file.

A game server counts as running while one of its processes (``family.py``) has the server's port
open. If the launcher (GAMESERVER_LAUNCHER) exited without an error, the game server gets time to
open its port in the background. When the game server has ended, the remaining processes are killed,
and the end is reported once.

A process that an earlier deploy server started is not our child. A pidfd reports the end of such a
process, but not the exit code. Its output still arrives through its own pipes (``child_setup.py``).
"""

import errno
import os
import signal
import stat
import sys
from collections.abc import Callable, Mapping
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

from svcserver.deploy.console import OutputFile
from svcserver.deploy.executables import cause, check_program
from svcserver.deploy.family import LOOK_AGE_S, Family, Polled, ProcessInfo, Watched, own_children
from svcserver.deploy.orders import Order
from svcserver.kernel.ids import new_id

log = Logger()

MAX_OUTPUT = 1024 * 1024  # bytes of one server's output file; then a new file is started
CHUNK = 64 * 1024  # bytes
MAX_LEFT = 1024 * 1024  # bytes read from the pipe of a dead server; it usually holds 64 KiB at most
UNKNOWN_EXIT = "code unknown"  # of a process that an earlier deploy server started
CLEAN_EXIT = "code 0"  # of a game server whose players have left
BACKGROUND_S = 120.0  # time from the launcher's end until a background server opens its port
LONGEST_ERROR = 16  # bytes: the number that a child sends when exec fails
CHILD_SETUP = str(Path(__file__).with_name("child_setup.py"))


class Output:
    """A file with the output of a game server, at most ``MAX_OUTPUT`` bytes.

    When a game server starts, the previous file is renamed to ``.old``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = 0  # the position of the file's first byte in all the output
        self._series = new_id()
        self._size = 0
        self._file: BinaryIO | None = None
        self._is_warned = False

    def begin(self) -> None:
        """Open a new file; if that fails, the output is lost, but the server keeps running."""
        self.close()
        self._start += self._size
        self._size = 0
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._path.exists():
                self._path.chmod(0o600)  # an older version left it readable
                os.replace(self._path, self._path.with_suffix(".old"))
            # game servers print players' addresses and names, and their own command line
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self._file = os.fdopen(handle, "wb", buffering=0)
        except OSError as error:
            self._warn(error)

    def resume(self) -> None:
        """Append to the output file that an earlier deploy server has begun."""
        self.close()
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._file = os.fdopen(handle, "ab", buffering=0)
            self._size = os.fstat(handle).st_size
        except OSError as error:
            self._warn(error)

    def write(self, data: bytes) -> None:
        """Write the game server's output to the file.

        Never fails: an error here would close the server's pipe, and the server's next line of
        output would then end the server. A full disk must not end a hunt.
        """
        if self._file is not None and self._size + len(data) > MAX_OUTPUT:
            self.begin()
        if self._file is None:
            return
        try:
            self._size += self._file.write(data[-MAX_OUTPUT:]) or 0
        except OSError as error:
            self._warn(error)

    def file(self) -> OutputFile:
        """Return the current file, for readers."""
        return OutputFile(self._path, self._series, self._start)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _warn(self, error: OSError) -> None:
        if not self._is_warned:
            self._is_warned = True
            log.warn(
                "the output of a game server is lost, because {path} cannot be written: {why}",
                path=str(self._path),
                why=error.strerror,
            )


class UnknownExit(Exception):
    """The reason for the end of a process whose exit code is not available."""

    exitCode = "unknown"


class GameProcess(ProcessProtocol):
    """The protocol of one game server; calls ``ended`` once, with ``code N`` or ``signal NAME``.

    When the main process of the game server changes, ``moved`` is called with the new pid. In a
    Docker Swarm, ``placed`` is called with the address and the id of the machine that runs the game
    server. When the swarm starts the program again, ``restarted`` is called with two texts: how and
    why the program ended.
    """

    def __init__(self, output: Output | None, ended: Callable[[str], None]) -> None:
        self.is_zombie: Callable[[int], bool] = _is_zombie
        self.output = output
        self._ended = ended
        self._waiting: list[Deferred[None]] = []
        self.moved: Callable[[int], None] = lambda pid: None
        self.placed: Callable[[str, str], None] = lambda address, node: None
        self.restarted: Callable[[str, str], None] = lambda how, reason: None
        self.family: Family | None = None  # None if the system does not list processes
        self.over = False
        self.ending = False  # no longer a game server; the remaining processes are killed
        self._stopping = False  # we have asked it to end
        self._is_clean = False  # the launcher has ended without an error
        self._launcher_ended_at = 0.0  # the age of its family at the launcher's end
        self._has_listened = False  # True once one of its processes has had the port
        self._finished = False
        self._pipes: list[Watched] = []  # with its output
        self._closed = False  # the transport reports nothing more
        self._next: Watched | Polled | None = None  # the process that is watched next
        self._next_pid: int | None = None
        self._executed: Deferred[None] = succeed(None)
        self.how = ""  # how it ended, once that is known
        self.reason = ""  # why the host ended it, if it did
        self.first_pid: int | None = None  # the pid, even if the process ends during its start
        self.group: int | None = None  # the group of its forks, if it leads one

    def begin_exec(self) -> None:
        """Record that the game server does not run yet."""
        self._executed = Deferred()

    def end_exec(self, error: Exception | None = None) -> None:
        """Record that the game server runs, or the error with which its start failed."""
        if not self._executed.called:
            self._executed.callback(None) if error is None else self._executed.errback(error)

    def when_executed(self) -> Deferred[None]:
        """Wait until the game server runs; fail with OSError or NoCapacity if it cannot start."""
        return self._executed

    def connectionMade(self) -> None:
        self.first_pid = self.pid
        if self.first_pid is not None:
            own_children.add(self.first_pid)
            if self.family is not None:
                self.family.leader = self.first_pid  # the process may end before spawn returns
        if self.output is not None:
            self.output.begin()

    def attach(self, transport: Any, group: int) -> None:
        """Use this transport to watch a process that is already running."""
        self.transport, self.group = transport, group
        if self.output is not None:
            self.output.resume()

    def outReceived(self, data: bytes) -> None:
        """Write the game server's output to its file, if there is one."""
        if self.output is not None:
            self.output.write(data)

    errReceived = outReceived

    def processExited(self, reason: Failure) -> None:
        """Handle the exit of the child, even while another process still holds its pipes."""
        if self.first_pid is not None:
            own_children.discard(self.first_pid)
        how = describe_exit(reason.value)
        self._is_clean = how == CLEAN_EXIT
        self._launcher_ended_at = self.family.age() if self.family is not None else 0.0
        self._on_exit(how)

    def _on_exit(self, how: str) -> None:
        """Handle the end of the watched process: watch another, or report the game server's end."""
        self.how, self._next, self._next_pid = how, None, None
        while (process := self._successor()) is not None:
            if self._watch(process):
                return
        self._finish()

    def _successor(self) -> ProcessInfo | None:
        """Return another process of the game server to watch, or None if none is left.

        Kills the remaining processes if none of them has the port or may still open it.
        """
        if self.family is None:
            return None
        remaining = self.family.members()
        if not remaining:
            return None
        if not self._stopping:
            if not self.ending:
                holder = self.family.holder()
                if holder is not None or (self._is_clean and not self._has_listened):
                    self._has_listened = holder is not None
                    return holder or remaining[-1]
            self.family.signal(signal.SIGKILL)
        self.ending = True
        return remaining[0]

    def _watch(self, process: ProcessInfo) -> bool:
        """Watch this process; return False if it has already ended."""
        if self.family is None:
            return False
        self._next = self.family.follow(process, self._next_ended)
        if self._next is None:
            return False
        self._next_pid = process.pid
        if not self.ending:
            self.moved(process.pid)
        return True

    def _next_ended(self) -> None:
        if self._next is not None:
            self._next.close()
        self._on_exit(UNKNOWN_EXIT)

    def check_port(self) -> None:
        """Record whether the game server listens; watch the process that listens.

        After its first process ends, the game server has ``BACKGROUND_S`` seconds to open its port.
        If its port is not open then, all its processes are killed.
        """
        if self.over or self.ending or self.family is None:
            return
        holder, before = self.family.holder(), self._next
        self._has_listened = self._has_listened or holder is not None
        if before is None:
            return
        if holder is None and self.family.age() - self._launcher_ended_at >= BACKGROUND_S:
            self.kill("KILL")
        elif holder is not None and holder.pid != self._next_pid and self._watch(holder):
            before.close()

    def _finish(self) -> None:
        """Close the pipes and the transport, because no process of the game server is left."""
        self.over = self._finished = True
        if self.family is None and self.group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)  # this also kills its forks
        for pipe in self._pipes:
            for _ in range(MAX_LEFT // CHUNK):  # a grandchild may still write
                if not self._read_chunk(pipe):
                    break
        self.close_pipes()
        transport: Any = self.transport
        transport.loseConnection()
        if self._closed:
            self._report_end()

    def read_from(self, reactor: Any, handle: int) -> None:
        """Copy this pipe's data to the output file; close the pipe when the game server ends."""
        os.set_blocking(handle, False)
        pipe = Watched(reactor, handle, lambda: self._read_chunk(pipe))
        self._pipes.append(pipe)
        pipe.begin()

    def _read_chunk(self, pipe: Watched) -> bool:
        """Read a chunk; return False if the pipe is empty or closed."""
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
        """Stop reading from the game server."""
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []

    def processEnded(self, reason: Failure) -> None:
        """Handle the end of the child and of its output; the child's own children may still run."""
        self._closed = True
        if self._finished:
            self._report_end()

    def _report_end(self) -> None:
        if self.output is not None:
            self.output.close()
        self._ended(self.how)
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)

    @property
    def alive(self) -> bool:
        """True while the game server runs; a zombie or a leftover process does not count."""
        if self.over or self.ending or self.pid is None:
            return False
        return not self.is_zombie(self.pid)

    def has(self, pid: int) -> bool:
        """Return whether the process belongs to the game server."""
        if pid == self.pid:
            return True
        return self.family is not None and any(
            member.pid == pid for member in self.family.members(LOOK_AGE_S)
        )

    def reap(self) -> None:
        """Make the reactor reap a dead child now."""
        if not self.over and self._next is None:
            reapAllProcesses()

    @property
    def pid(self) -> int | None:
        """The pid of the watched process, or None."""
        if self._next_pid is not None:
            return self._next_pid
        return getattr(self.transport, "pid", None)

    def when_over(self) -> Deferred[None]:
        """Wait until the game server has ended."""
        done: Deferred[None] = Deferred()
        if self.over:
            done.callback(None)
        else:
            self._waiting.append(done)
        return done

    def kill(self, how: str) -> None:
        """Send ``TERM`` or ``KILL`` to the process and to all processes that it has started."""
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
        except PermissionError as error:  # a launcher runs it as another user
            log.error("process {pid} cannot be ended: {why}", pid=self.pid, why=error.strerror)

    def _kill_group(self, how: str) -> bool:
        """Signal the process group; return False if ``child_setup`` has not created it yet."""
        if self.group is None or self._next is not None:  # a later group may have its id by now
            return False
        try:
            os.killpg(self.group, getattr(signal, f"SIG{how}"))
        except ProcessLookupError:
            return False
        return True


@define(eq=False)
class AdoptedTransport:
    """The Twisted transport of a process that an earlier deploy server started."""

    reactor: Any
    pid: int
    process: GameProcess
    _watch: Watched | Polled | None = None

    def begin(self, is_ours: Callable[[], bool]) -> None:
        """Watch the process; raises ProcessLookupError if the process has ended.

        ``is_ours`` is called after the pidfd was opened, and checks the pid again. If ``is_ours``
        returns True, the pidfd refers to the watched process, even if another process gets the pid
        later. If the system refuses pidfds, the process is polled.
        """
        watch: Watched | Polled
        try:
            watch = Watched(self.reactor, os.pidfd_open(self.pid), self._ended)
        except ProcessLookupError:
            raise
        except OSError:
            watch = Polled(self.reactor, is_ours, self._ended)
        if not is_ours():
            watch.close()
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        self._watch = watch
        watch.begin()
        for number in (1, 2):
            self._read_output(number)

    def _read_output(self, number: int) -> None:
        try:
            handle = os.open(f"/proc/{self.pid}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            text = "the output of process {pid} is lost: {why}"
            log.warn(text, pid=self.pid, why=error.strerror)
            return
        if not stat.S_ISFIFO(os.fstat(handle).st_mode):  # it writes to a file
            os.close(handle)
            return
        self.process.read_from(self.reactor, handle)

    def _ended(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        reason = Failure(UnknownExit())
        self.process.processExited(reason)
        self.process.processEnded(reason)

    def loseConnection(self) -> None:
        """Do nothing: ``GameProcess`` closes the pipes."""

    def signalProcess(self, how: str) -> None:
        """Send a signal; raises ProcessExitedAlready if the process has ended."""
        if self._watch is None:
            raise ProcessExitedAlready
        number = getattr(signal, f"SIG{how}")
        try:
            if isinstance(self._watch, Watched):
                signal.pidfd_send_signal(self._watch.descriptor, number)
            elif self._watch.is_running():
                os.kill(self.pid, number)
        except ProcessLookupError:  # its end has yet to be reported
            raise ProcessExitedAlready from None


def adopt(reactor: Any, process: GameProcess, pid: int, is_ours: Callable[[], bool]) -> None:
    """Let ``process`` watch a running game server; raises OSError if the server has ended."""
    transport = AdoptedTransport(reactor, pid, process)
    transport.begin(is_ours)
    process.attach(transport, pid)


@define
class Spawner:
    """The engine that starts game servers as processes on this machine.

    With ``own_group``, processes start through ``child_setup.py``. That is impossible on Windows,
    which has no process groups and does not let us choose a child's descriptors.
    """

    reactor: Any
    python: str = sys.executable
    environ: dict[str, str] = field(factory=lambda: dict(os.environ), repr=False)
    own_group: bool = os.name == "posix"

    def start(self, process: GameProcess, order: Order) -> int:
        """Start the game server that the launch order describes; see ``supervisor.Engine``."""
        return self.spawn(process, order.command(), order.environ)

    def spawn(self, process: GameProcess, command: list[str], extra: Mapping[str, str]) -> int:
        """Start ``command`` without a shell; raises OSError on failure.

        Returns the pid of the watched process. If a launcher has already ended by then, that is the
        process which it left in the background.
        """
        words = [check_program(command[0], self.environ.get("PATH")), *command[1:]]
        environ = {**self.environ, **extra}
        if not self.own_group:
            transport = self.reactor.spawnProcess(process, words[0], words, env=environ)
            transport.closeStdin()
            return process.pid or process.first_pid or 0
        process.begin_exec()
        with ExitStack() as child_ends, ExitStack() as on_error:
            on_error.callback(process.close_pipes)
            child_fds = {}  # standard input stays closed
            for number in (1, 2, 3):
                reading, child_fds[number] = os.pipe()
                child_ends.callback(os.close, child_fds[number])
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
        self._await_exec(process, words[0], reading)
        return process.pid or process.first_pid or 0

    def _await_exec(self, process: GameProcess, program: str, reading: int) -> None:
        """Report how the child's exec ended.

        A successful exec closes the pipe. If the exec fails, the child writes the error number to
        the pipe.
        """

        def read_result() -> None:
            result = os.read(reading, LONGEST_ERROR)
            watch.close()
            number = int(result) if result.isdigit() else 0
            error = OSError(number, os.strerror(number))
            process.end_exec(OSError(number, cause(program, error)) if number else None)

        watch = Watched(self.reactor, reading, read_result, process.end_exec)
        watch.begin()


def _is_zombie(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return sys.platform == "linux"  # it has ended; elsewhere there is nothing to read
    except OSError:  # or no descriptor is left: processExited will report the end
        return False
    return state in ("Z", "X")


def describe_exit(reason: Any) -> str:
    """Return ``code N`` or ``signal NAME``."""
    number = getattr(reason, "signal", None)
    if number is None:
        return f"code {getattr(reason, 'exitCode', 0)}"
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"
